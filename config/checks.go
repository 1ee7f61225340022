package config

import (
	"net"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

func (d *decoder) config(root *yaml.Node) *Config {
	c := Defaults()
	top := d.open("", place{line: 1}, root)
	readAll(top, settings, &c)
	in := func(path string) *section { return d.sections[path] }
	if s := in("kafka"); !s.has("group") {
		s.warn("group", "not set; whatever runs with the default %q on these brokers or in this Redis shares partitions and state", c.Kafka.Group)
	}
	checkTopics(in("kafka.topics"), &c.Kafka.Topics)
	checkTLS(in("kafka.tls"), &c.Kafka.TLS)
	checkSASL(in("kafka.sasl"), &c.Kafka)
	checkTLS(in("kafka.schema_registry.tls"), &c.Kafka.SchemaRegistry.TLS)
	checkRegistry(in("kafka.schema_registry"), &c.Kafka)
	checkTLS(in("redis.tls"), &c.Redis.TLS)
	d.checkRedis(in("redis"), &c.Redis)
	checkHTTP(in("http"), &c.HTTP)
	checkServe(in("serve"), &c.Serve)
	checkLimits(in("limits"), &c.Limits)
	checkParking(in("join"), &c.Join, c.Limits.MaxRecordBytes)
	checkRemember(in("join"), &c.Join)
	d.learners(top, &c)
	d.experiments(top, &c)
	top.close()
	d.reportUnknown(&c)
	return &c
}

// checkTopics requires different names of all topics, dead-letter topics included. Kafka itself refuses a topic whose name differs from
// another's only in '.' and '_'.
func checkTopics(s *section, t *Topics) {
	if !s.ok("impressions", "selections", "payoffs", "rankings", "dlq_suffix") {
		return
	}
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

// checkTLS: any key enables encryption, unless the file has enabled: false; then the others are ignored.
func checkTLS(s *section, t *TLS) {
	used := t.CAFile != "" || t.CertFile != "" || t.KeyFile != "" || t.ServerName != ""
	if !s.has("enabled") || !s.ok("enabled") {
		t.Enabled = used
	}
	if used && !t.Enabled && s.ok("enabled") {
		s.warn("enabled", "is false: the other keys have no effect, and the connection is not encrypted")
	}
	if !s.ok("cert_file", "key_file") {
		return
	}
	s.checkPair(t.CertFile, t.KeyFile)
	if !t.Enabled {
		*t = TLS{}
	}
}

// checkPair requires both or none of a certificate and its key.
func (s *section) checkPair(cert, key string) {
	switch {
	case cert != "" && key == "":
		s.fault("cert_file", "needs key_file too")
	case cert == "" && key != "":
		s.fault("key_file", "needs cert_file too")
	}
}

// checkSASL requires all settings of a login if any is set.
func checkSASL(s *section, k *Kafka) {
	a := &k.SASL
	if len(s.fields) == 0 {
		return
	}
	if !s.has("mechanism") {
		s.missing("mechanism", "is needed for SASL: plain, scram-sha-256, scram-sha-512, oauthbearer or aws-msk-iam")
	}
	if s.ok("mechanism") {
		checkLogin(s, a)
	}
	s.checkPassword()
	checkCredentials(s, a)
	if what := a.Mechanism.readable(); what != "" && !k.TLS.Enabled && !allLoopback(k.Brokers) {
		s.warn("mechanism", "%s without kafka.tls sends the %s readable over the network", a.Mechanism, what)
	}
}

func allLoopback(addresses []string) bool {
	return !slices.ContainsFunc(addresses, func(a string) bool { return !isLoopback(a) })
}

// checkPassword refuses two sources of a password.
func (s *section) checkPassword() {
	if s.has("password") && s.has("password_file") {
		s.fault("password_file", "password is set too; only one can be used")
	}
}

func checkHTTP(s *section, h *HTTP) {
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
