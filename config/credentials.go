package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
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

// checkPassword refuses two sources of a password.
func (s *section) checkPassword() {
	if s.has("password") && s.has("password_file") {
		s.fault("password_file", "password is set too; only one can be used")
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
