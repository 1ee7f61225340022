package config

import (
	"errors"
	"strings"

	"github.com/segmentio/kafka-go/sasl/scram"
)

// checkCredentials refuses a user or password that the mechanism cannot carry. One from a file is looked at with the file.
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

// carries says why a mechanism cannot carry a user or a password; its errors do not show it. PLAIN separates them by
// zeros (RFC 4616), SCRAM prepares them (RFC 5802), by the library that logs in.
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
