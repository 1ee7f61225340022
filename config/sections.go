package config

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// config reads the whole file.
func (d *decoder) config(root *yaml.Node) *Config {
	c := Defaults()
	top := d.open("", place{line: 1}, root)
	d.kafka(top.section("kafka"), &c.Kafka)
	d.redis(top.section("redis"), &c.Redis)
	d.http(top.section("http"), &c.HTTP)
	d.log(top.section("log"), &c.Log)
	join := top.section("join")
	d.join(join, &c.Join)
	d.limits(top.section("limits"), &c.Limits)
	checkParking(join, &c.Join, c.Limits.MaxRecordBytes)
	d.learners(top, &c)
	top.close()
	d.reportUnknown()
	return &c
}

func (d *decoder) kafka(s *section, k *Kafka) {
	d.addresses(s, "brokers", &k.Brokers)
	if len(k.Brokers) == 0 {
		s.missing("brokers", "at least one broker is needed, as host:port")
	}
	s.string("group", &k.Group, checkGroup)
	if !s.has("group") {
		s.warn("group", "not set; whatever runs with the default %q on these brokers or in this Redis shares partitions and state", k.Group)
	}
	enum(s, "start", &k.Start, []Start{Latest, Earliest})
	d.topics(s.section("topics"), &k.Topics)
	d.tls(s.section("tls"), &k.TLS)
	d.sasl(s.section("sasl"), k)
	s.close()
}

// addresses reads a list of host:port; a fault names the element.
func (d *decoder) addresses(s *section, key string, dst *[]string) {
	items, _ := s.items(key)
	path := s.join(key)
	var good []string
	for _, it := range items {
		if err := checkAddress(it.text, false); err != nil {
			if it.text != "" || !d.bad[path] {
				d.fault(path, it.at, "%v", err)
			}
			continue
		}
		if slices.Contains(good, it.text) {
			d.warn(path, it.at, "%s stands twice", it.text)
			continue
		}
		good = append(good, it.text)
	}
	*dst = good
}

func (d *decoder) topics(s *section, t *Topics) {
	s.string("impressions", &t.Impressions, checkTopic)
	s.string("selections", &t.Selections, func(name string) error {
		if name == "" {
			return nil // there is no such topic
		}
		return checkTopic(name)
	})
	s.string("payoffs", &t.Payoffs, checkTopic)
	s.string("rankings", &t.Rankings, checkTopic)
	s.string("dlq_suffix", &t.DLQSuffix, checkSuffix)
	s.close()
	if s.ok("impressions", "selections", "payoffs", "rankings", "dlq_suffix") {
		distinctTopics(s, t)
	}
}

// distinctTopics wants different names for all topics, dead-letter topics included. Kafka itself refuses a topic
// whose name differs from another's only in '.' and '_'.
func distinctTopics(s *section, t *Topics) {
	owner := map[string]string{}
	claim := func(key, name, what string) (free bool) {
		plain := strings.ReplaceAll(name, ".", "_")
		if other, taken := owner[plain]; taken {
			s.fault(key, "%s is %s, which %s has already ('.' and '_' count as the same)", what, quote(name), other)
			return false
		}
		owner[plain] = what
		return true
	}
	names := []struct {
		key, name string
		input     bool
	}{{"impressions", t.Impressions, true}, {"selections", t.Selections, true}, {"payoffs", t.Payoffs, true}, {"rankings", t.Rankings, false}}
	free := map[string]bool{}
	for _, n := range names {
		free[n.key] = n.name != "" && claim(n.key, n.name, "the topic of "+n.key)
	}
	for _, n := range names {
		if !n.input || !free[n.key] {
			continue
		}
		dlq := t.DLQ(n.name)
		if len(dlq) > longestTopic {
			s.fault(n.key, "with dlq_suffix the name has %d characters; Kafka takes at most %d", len(dlq), longestTopic)
		}
		claim("dlq_suffix", dlq, "the dead-letter topic of "+n.key)
	}
}

func (d *decoder) tls(s *section, t *TLS) {
	any := func(string) error { return nil }
	s.string("ca_file", &t.CAFile, any)
	s.string("cert_file", &t.CertFile, any)
	s.string("key_file", &t.KeyFile, any)
	s.string("server_name", &t.ServerName, func(name string) error {
		if name == "" {
			return nil
		}
		return checkHost(name)
	})
	used := t.CAFile != "" || t.CertFile != "" || t.KeyFile != "" || t.ServerName != ""
	t.Enabled = used
	s.bool("enabled", &t.Enabled)
	s.close()
	if used && !t.Enabled && s.ok("enabled") {
		s.warn("enabled", "is false: the other keys have no effect, and the connection is not encrypted")
	}
	if !s.ok("cert_file", "key_file") {
		return
	}
	switch {
	case t.CertFile != "" && t.KeyFile == "":
		s.fault("cert_file", "needs key_file too")
	case t.CertFile == "" && t.KeyFile != "":
		s.fault("key_file", "needs cert_file too")
	}
}

func (d *decoder) sasl(s *section, k *Kafka) {
	a := &k.SASL
	enum(s, "mechanism", &a.Mechanism, []Mechanism{Plain, ScramSHA256, ScramSHA512})
	s.string("username", &a.Username, func(name string) error {
		if name == "" {
			return errEmpty
		}
		return nil
	})
	d.password(s, &a.Password, &a.PasswordFile)
	s.close()
	if len(s.fields) == 0 {
		return
	}
	if !s.has("mechanism") {
		s.missing("mechanism", "is needed for SASL: plain, scram-sha-256 or scram-sha-512")
	}
	if !s.has("username") {
		s.missing("username", "is needed for SASL")
	}
	if !s.has("password") && !s.has("password_file") {
		s.missing("password", "is needed for SASL, or password_file")
	}
	checkCredentials(s, a)
	if a.Mechanism == Plain && !k.TLS.Enabled && !allLoopback(k.Brokers) {
		s.warn("mechanism", "plain without kafka.tls sends the password readable over the network")
	}
}

func allLoopback(addresses []string) bool {
	return !slices.ContainsFunc(addresses, func(a string) bool { return !isLoopback(a) })
}

// password reads the two ways to give a password; at most one is used.
func (d *decoder) password(s *section, password *Secret, file *string) {
	s.secret("password", password)
	s.string("password_file", file, func(name string) error {
		if name == "" {
			return errEmpty
		}
		return nil
	})
	if s.has("password") && s.has("password_file") {
		s.fault("password_file", "password is set too; only one can be used")
	}
}

func (d *decoder) http(s *section, h *HTTP) {
	s.string("listen", &h.Listen, func(address string) error {
		if address == "" {
			return nil // nothing is served
		}
		return checkAddress(address, true)
	})
	s.bool("pprof", &h.Pprof)
	s.close()
	if _, port, err := net.SplitHostPort(h.Listen); err == nil && port == "0" {
		s.warn("listen", "port 0 is another one at each start: neither `ranker-worker health` nor Prometheus finds it")
	}
	switch {
	case !h.Pprof || !s.ok("listen"):
	case h.Listen == "":
		s.warn("pprof", "has no effect without http.listen")
	case !isLoopback(h.Listen):
		s.warn("pprof", "profiles can be read by whoever reaches %s", h.Listen)
	}
}

func (d *decoder) log(s *section, l *Log) {
	enum(s, "level", &l.Level, []string{"debug", "info", "warn", "error"})
	enum(s, "format", &l.Format, []string{"text", "json"})
	s.close()
}

const longest = 3650 * day // of all settings that are times

func (d *decoder) join(s *section, j *Join) {
	s.duration("parking_time", &j.ParkingTime, 0, longest)
	s.int("max_parked", &j.MaxParked, 0, 100_000_000)
	s.size("max_parked_bytes", &j.MaxParkedBytes, 0, 1<<40)
	s.close()
}

func (d *decoder) limits(s *section, l *Limits) {
	s.int("max_candidates", &l.MaxCandidates, 1, mostCandidates)
	set(s, "max_record_bytes", &l.MaxRecordBytes, parseRecordBytes)
	s.duration("checkpoint_interval", &l.CheckpointInterval, time.Millisecond, 30*time.Second)
	s.close()
	checkLimits(s, l)
}

// numbers reads a list of exactly n finite numbers.
func (s *section) numbers(key string, n int) ([]float64, bool) {
	f, _ := s.ask(key)
	items, ok := s.items(key)
	if !ok {
		return nil, false
	}
	if len(items) != n {
		s.d.fault(s.join(key), f.at, "needs %d numbers, has %d", n, len(items))
		return nil, false
	}
	out := make([]float64, n)
	for i, it := range items {
		x, err := parseFloat(it.text)
		if err != nil {
			s.d.fault(s.join(key), it.at, "%v", err)
			ok = false
		}
		out[i] = x
	}
	return out, ok
}

// payoffRange reads payoff_range.
func (s *section) payoffRange(dst *Range) {
	x, ok := s.numbers("payoff_range", 2)
	if !ok {
		return
	}
	if err := checkRange(x[0], x[1]); err != nil {
		s.fault("payoff_range", "%v", err)
		return
	}
	*dst = Range{Min: x[0], Max: x[1]}
}

// parseDelta reads delta: a probability, or auto.
func parseDelta(text string) (Delta, error) {
	if text == "auto" {
		return Delta{Auto: true}, nil
	}
	x, err := parseFloat(text)
	if err != nil || x <= 0 || x >= 1 {
		return Delta{}, fmt.Errorf("%s is neither auto nor a number between 0 and 1", quote(text))
	}
	return Delta{Value: x}, nil
}
