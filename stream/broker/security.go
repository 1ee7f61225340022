package broker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/segmentio/kafka-go"
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

// OAuthBearer is the mechanism OAUTHBEARER (RFC 7628), which kafka-go lacks. Each connection requests a token. Extensions are sent to the
// broker too (KIP-342); nil: none.
func OAuthBearer(token func(context.Context) (string, error), extensions map[string]string) sasl.Mechanism {
	return &bearer{token, extensions}
}

type bearer struct {
	token      func(context.Context) (string, error)
	extensions map[string]string
}

func (*bearer) Name() string { return "OAUTHBEARER" }

// bearerToken matches a token (RFC 6750, 2.1), which cannot end the message's field.
var bearerToken = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)

// Start returns the only message that a client sends (RFC 7628, 3.1).
func (b *bearer) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	token, err := b.token(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("no token to log in to Kafka with: %w", err)
	}
	if !bearerToken.MatchString(token) {
		return nil, nil, errors.New("the token to log in to Kafka with is empty, or has characters in it that no bearer token has (RFC 6750)")
	}
	const separator = "\x01"
	message := "n,," + separator + "auth=Bearer " + token + separator
	for _, name := range slices.Sorted(maps.Keys(b.extensions)) {
		message += name + "=" + b.extensions[name] + separator
	}
	return bearerExchange{}, []byte(message + separator), nil
}

// bearerExchange is one login. It has no state: the answer to an accepted token is empty.
type bearerExchange struct{}

// Next fails if the broker answers with a reason, as JSON, to refuse the token (RFC 7628, 3.2.2). The RFC's second message of the client is
// not sent, since it would only delay the reason.
func (bearerExchange) Next(_ context.Context, challenge []byte) (done bool, response []byte, err error) {
	if len(challenge) == 0 {
		return true, nil, nil
	}
	return false, nil, fmt.Errorf("%w: %s", kafka.SASLAuthenticationFailed, refusal(challenge))
}

// refusal renders a broker's answer.
func refusal(answer []byte) string {
	var says struct{ Status, Scope string }
	if err := json.Unmarshal(answer, &says); err != nil || says.Status == "" {
		const most = 200
		return fmt.Sprintf("the broker answered %q", answer[:min(len(answer), most)])
	}
	text := fmt.Sprintf("the broker calls the token %q", says.Status)
	if scope := strings.TrimSpace(says.Scope); scope != "" {
		text += fmt.Sprintf(", and wants the scope %q", scope)
	}
	return text
}
