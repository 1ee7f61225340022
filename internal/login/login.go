package login

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go/sasl"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream/broker"
)

// Mechanism returns the login of connections to Kafka; nil: none. It reads the files for the first time.
func Mechanism(cfg *config.Config) (sasl.Mechanism, error) {
	s := &cfg.Kafka.SASL
	switch s.Mechanism {
	case "":
		return nil, nil
	case config.OAuthBearer:
		token, err := tokens(cfg)
		if err != nil {
			return nil, err
		}
		return broker.OAuthBearer(token, s.ExtensionsByName()), nil
	case config.AWSMSKIAM:
		token, err := awsTokens(s.Region)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", cfg.Where("kafka.sasl"), err)
		}
		return broker.OAuthBearer(token, nil), nil
	}
	m, err := broker.NewSASL(string(s.Mechanism), s.Username, cfg.SASLPassword)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Where("kafka.sasl"), err)
	}
	return m, nil
}

// tokens returns OAUTHBEARER's source of tokens.
func tokens(cfg *config.Config) (func(context.Context) (string, error), error) {
	if cfg.Kafka.SASL.TokenURL != "" {
		c := newClient(cfg)
		if _, _, err := c.config(); err != nil { // its files are read again for each token
			return nil, err
		}
		return c.cached.Token, nil
	}
	_, err := cfg.SASLToken()
	return func(context.Context) (string, error) { return cfg.SASLToken() }, err
}
