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
	r := saslOptions{mechanism, username, password}
	m, err := r.mechanismNow()
	if err != nil {
		return nil, err
	}
	return &renewedMechanism{r, m.Name()}, nil
}

type saslOptions struct {
	mechanism, username string
	password            func() (string, error)
}

func (r *saslOptions) mechanismNow() (sasl.Mechanism, error) {
	password, err := r.password()
	if err != nil {
		return nil, err
	}
	switch r.mechanism {
	case "plain":
		return plain.Mechanism{Username: r.username, Password: password}, nil
	case "scram-sha-256", "scram-sha-512":
		algorithm := scram.SHA256
		if r.mechanism == "scram-sha-512" {
			algorithm = scram.SHA512
		}
		m, err := scram.Mechanism(algorithm, r.username, password)
		if err != nil {
			return nil, fmt.Errorf("preparing SASL %s for user %q: %w", r.mechanism, r.username, err)
		}
		return m, nil
	}
	return nil, fmt.Errorf("unknown SASL mechanism %q: plain, scram-sha-256 or scram-sha-512", r.mechanism)
}

// renewedMechanism reads the password for each connection.
type renewedMechanism struct {
	saslOptions
	name string
}

func (r *renewedMechanism) Name() string { return r.name }

func (r *renewedMechanism) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	m, err := r.mechanismNow()
	if err != nil {
		return nil, nil, err
	}
	return m.Start(ctx)
}
