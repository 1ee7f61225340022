package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/segmentio/kafka-go/sasl/scram"
)

// needs returns the keys that a mechanism's login uses.
func (a *SASL) needs() []string {
	switch {
	case a.Mechanism == AWSMSKIAM:
		return []string{"region"}
	case a.Mechanism == OAuthBearer && a.TokenURL == "":
		return []string{"token_file", "extensions"}
	case a.Mechanism == OAuthBearer:
		return []string{"token_url", "username", "password", "password_file", "token_ca_file", "scope", "extensions"}
	}
	return []string{"username", "password", "password_file"}
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

func (a *SASL) asks(login, client string) string {
	if a.TokenURL != "" {
		return " for token_url: " + client
	}
	return " " + login
}

// readable names the part of a login that an eavesdropper can read, or "".
func (m Mechanism) readable() string {
	switch m {
	case Plain:
		return "password"
	case OAuthBearer, AWSMSKIAM:
		return "token"
	}
	return ""
}

// Kafka's own rules for extensions; auth is the token's name. A comma ends one here.
var oneExtension = regexp.MustCompile(`^ *([A-Za-z]+)=([\x21-\x2B\x2D-\x7E](?:[\x20-\x2B\x2D-\x7E]*[\x21-\x2B\x2D-\x7E])?) *$`)

func (a *SASL) ExtensionsByName() map[string]string {
	all, _ := parseExtensions(a.Extensions) // checked when it was read
	return all
}

func parseExtensions(text string) (map[string]string, error) {
	all := map[string]string{}
	for one := range strings.SplitSeq(text, ",") {
		found := oneExtension.FindStringSubmatch(one)
		switch {
		case found == nil:
			return nil, fmt.Errorf("%s is not name=value, the name of letters", quote(one))
		case found[1] == "auth":
			return nil, errors.New("auth is the token's own name")
		case all[found[1]] != "":
			return nil, fmt.Errorf("%s is named twice", quote(found[1]))
		}
		all[found[1]] = found[2]
	}
	return all, nil
}

var regionName = regexp.MustCompile(`^[a-z]{2,}(-[a-z]+)+-[0-9]+$`)

func isRegion(s string) error {
	if !regionName.MatchString(s) {
		return fmt.Errorf("%s is not the name of a region", quote(s))
	}
	return nil
}

func isTokenURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Host == "" || !strings.HasPrefix(s, "https://") && !strings.HasPrefix(s, "http://"):
		return errors.New("is no URL that begins with https://")
	case u.User != nil:
		return errors.New("has a user in it: set username and password instead")
	}
	return nil
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

// carries returns the reason that a mechanism cannot carry a user or a password, without showing it. PLAIN separates them by zeros (RFC
// 4616), SCRAM prepares them (RFC 5802), by the library that logs in.
func (m Mechanism) carries(text string) error {
	switch m {
	case Plain:
		if strings.ContainsRune(text, 0) {
			return errors.New("has a zero byte in it, which plain cannot carry")
		}
	case ScramSHA256, ScramSHA512:
		if _, err := scram.Mechanism(scram.SHA256, text, text); err != nil {
			return errors.New("has characters in it that SCRAM does not allow (RFC 4013: control characters and the like)")
		}
	}
	return nil
}

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
