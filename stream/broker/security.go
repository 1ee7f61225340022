package broker

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// NewSASL returns the mechanism plain, scram-sha-256 or scram-sha-512; nil for an empty name. It reads the password now, and again for each
// new connection, so that it may change while the worker runs.
func NewSASL(mechanism, username string, password func() (string, error)) (sasl.Mechanism, error) {
	if mechanism == "" {
		return nil, nil
	}
	now := func() (sasl.Mechanism, error) {
		secret, err := password()
		if err != nil {
			return nil, err
		}
		switch mechanism {
		case "plain":
			return plain.Mechanism{Username: username, Password: secret}, nil
		case "scram-sha-256":
			return scram.Mechanism(scram.SHA256, username, secret)
		case "scram-sha-512":
			return scram.Mechanism(scram.SHA512, username, secret)
		}
		return nil, fmt.Errorf("unknown SASL mechanism %q: plain, scram-sha-256 or scram-sha-512", mechanism)
	}
	m, err := now()
	if err != nil {
		return nil, fmt.Errorf("preparing SASL for user %q: %w", username, err)
	}
	return &renewedMechanism{m.Name(), now}, nil
}

// renewedMechanism reads the password for each connection.
type renewedMechanism struct {
	name string
	now  func() (sasl.Mechanism, error)
}

func (r *renewedMechanism) Name() string { return r.name }

func (r *renewedMechanism) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	m, err := r.now()
	if err != nil {
		return nil, nil, err
	}
	return m.Start(ctx)
}
