package config

import (
	"net"
	"net/url"
	"slices"
	"strings"
)

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

// checkParking checks the time and room for parked records. Without either none could wait, which is refused, since topics have no order
// among each other.
func checkParking(s *section, j *Join) {
	if !s.ok("parking_time", "max_parked") {
		return
	}
	d := Defaults().Join
	switch {
	case j.MaxParked == 0 && j.ParkingTime == 0:
		s.fault("max_parked", "is 0, and so is parking_time: no record could wait for its impression. Topics are read beside each "+
			"other, so that after a restart payoffs may be read before their impressions, and would be lost. Leave the keys out: "+
			"then %d records may wait for %s", d.MaxParked, FormatDuration(d.ParkingTime))
	case j.MaxParked == 0:
		s.warn("max_parked", "0: a payoff or selection that is read before its impression is an orphan at once")
	case j.ParkingTime == 0:
		s.warn("parking_time", "0: a payoff or selection before its impression is an orphan once all topics have been read so far; and "+
			"with remember: 0 an impression is forgotten at its end, so that a repeated one is ranked again")
	}
}

// checkLogin requires the settings that a mechanism needs, and warns of those that it ignores.
func checkLogin(s *section, a *SASL) {
	needs := a.needs()
	switch {
	case a.Mechanism == OAuthBearer && !s.has("token_file") && !s.has("token_url"):
		s.missing("token_file", "is needed for oauthbearer, or token_url")
	case s.has("token_file") && s.has("token_url"):
		s.fault("token_url", "token_file is set too; only one can be used")
	}
	if slices.Contains(needs, "username") {
		if !s.has("username") {
			s.missing("username", "is needed%s", a.asks("for SASL", "the client id"))
		}
		if !s.has("password") && !s.has("password_file") {
			s.missing("password", "is needed%s, or password_file", a.asks("for SASL", "the client secret"))
		}
	}
	if a.Mechanism == "" {
		return
	}
	for _, t := range saslSettings {
		both := t.key == "token_file" && a.Mechanism == OAuthBearer // beside token_url, a fault
		if s.has(t.key) && t.key != "mechanism" && !both && !slices.Contains(needs, t.key) {
			s.warn(t.key, "has no effect with %s", a.Mechanism)
		}
	}
	if a.TokenURL != "" && s.ok("token_url") {
		if u, _ := url.Parse(a.TokenURL); u.Scheme == "http" && !isLoopback(net.JoinHostPort(u.Hostname(), "0")) {
			s.warn("token_url", "http:// sends the client secret readable over the network")
		}
	}
}

// checkCredentials refuses a user or password that the mechanism cannot carry. One from a file is checked with the file.
func checkCredentials(s *section, a *SASL) {
	if !s.ok("mechanism", "username", "password") || a.Mechanism == "" {
		return
	}
	if err := a.Mechanism.carries(a.Username); err != nil {
		s.fault("username", "%v", err)
	}
	if err := a.Mechanism.carries(string(a.Password)); err != nil {
		s.fault("password", "%v", err)
	}
}

// checkRegistry requires a registry with Avro, and one way to log in.
func checkRegistry(s *section, k *Kafka) {
	r := &k.SchemaRegistry
	if k.Formats.Avro() && !s.has("url") {
		s.missing("url", "is needed for Avro, whose schemas are in a schema registry: http://host:8081, say")
	}
	s.checkPassword()
	given := s.has("password") || s.has("password_file")
	switch {
	case s.has("token_file") && (s.has("username") || given):
		s.fault("token_file", "a user is set too; only one can be used")
	case s.has("username") && !given:
		s.missing("password", "is needed with username, or password_file")
	case given && !s.has("username"):
		s.missing("username", "is needed with a password")
	}
	if !s.ok("url") || r.URL == "" {
		return
	}
	encrypted := strings.HasPrefix(r.URL, "https://")
	tls := s.d.sections[s.join("tls")]
	switch {
	case r.TLS.Enabled && !encrypted:
		s.fault("tls", "is set, but the url begins with http://; write https://")
	case encrypted && tls.has("enabled") && tls.ok("enabled") && !r.TLS.Enabled:
		tls.fault("enabled", "is false, but the url begins with https://")
	case encrypted:
		r.TLS.Enabled = true
	case (given || s.has("token_file")) && !allLoopback([]string{strings.SplitN(r.URL, "/", 4)[2]}):
		s.warn("url", "without https:// the password or token is sent readable over the network")
	}
}
