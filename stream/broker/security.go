package broker

import (
	"fmt"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// NewSASL makes the mechanism of a name: plain, scram-sha-256 or scram-sha-512. The empty name is no SASL at all.
func NewSASL(mechanism, username, password string) (sasl.Mechanism, error) {
	switch mechanism {
	case "":
		return nil, nil
	case "plain":
		return plain.Mechanism{Username: username, Password: password}, nil
	case "scram-sha-256", "scram-sha-512":
		algorithm := scram.SHA256
		if mechanism == "scram-sha-512" {
			algorithm = scram.SHA512
		}
		m, err := scram.Mechanism(algorithm, username, password)
		if err != nil {
			return nil, fmt.Errorf("preparing SASL %s for user %q: %w", mechanism, username, err)
		}
		return m, nil
	}
	return nil, fmt.Errorf("unknown SASL mechanism %q: plain, scram-sha-256 or scram-sha-512", mechanism)
}
