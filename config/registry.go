package config

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"strings"
)

func checkRegistryURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case strings.Contains(text, "@"):
		return errors.New("must not hold a user: give username and password, or token_file")
	case err != nil || !strings.HasPrefix(text, u.Scheme+"://") || u.Scheme != "http" && u.Scheme != "https" ||
		checkAddress(net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "80")), false) != nil || strings.ContainsAny(text, "?#%"):
		return errors.New("is not a URL as in http://127.0.0.1:8081 or https://registry.example.com/path")
	}
	return nil
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
