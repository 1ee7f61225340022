package app

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/connectivity"
)

// kafkaServer describes a broker without its address.
func kafkaServer(cfg *config.Config, tlsConfig *tls.Config) connectivity.Server {
	s := connectivity.Server{Kind: connectivity.Kafka, TLS: tlsConfig, SASL: strings.ToUpper(string(cfg.Kafka.SASL.Mechanism))}
	switch a := cfg.Kafka.SASL; {
	case a.Mechanism == config.AWSMSKIAM:
		s.SASL = "OAUTHBEARER" // Kafka's name
		s.Login = "this AWS identity: it needs kafka-cluster:Connect on this cluster in its IAM policy; see kafka.sasl.region, and this machine's clock"
	case a.TokenURL != "":
		s.Login = "the token of kafka.sasl.token_url: see its issuer and audience, kafka.sasl.scope and kafka.sasl.extensions, and the broker's expectations " +
			"(sasl.oauthbearer.*)"
	case a.Mechanism == config.OAuthBearer:
		s.Login = "the token of kafka.sasl.token_file: see its end, issuer and audience, kafka.sasl.extensions, and the broker's expectations (sasl.oauthbearer.*)"
	}
	return s
}

// ExplainKafka explains a connection error of a broker's address; empty: of a configured one.
func ExplainKafka(ctx context.Context, cfg *config.Config, address string, err error) error {
	tlsConfig, bad := cfg.TLSConfig()
	if bad != nil {
		return err
	}
	all := cfg.Kafka.Brokers
	if address != "" {
		all = []string{address}
	}
	return explain(ctx, err, kafkaServer(cfg, tlsConfig), all)
}

// Explain explains a connection error by the Redis that has its port, else by the brokers. It returns other errors unchanged.
func Explain(ctx context.Context, cfg *config.Config, err error) error {
	var op *net.OpError
	if !errors.As(err, &op) || op.Addr == nil {
		return err
	}
	address := op.Addr.String()
	port := address[strings.LastIndexByte(address, ':'):]
	if !slices.ContainsFunc(cfg.Redis.Addresses, func(a string) bool { return strings.HasSuffix(a, port) }) {
		return ExplainKafka(ctx, cfg, address, err)
	}
	tlsConfig, bad := cfg.RedisTLSConfig()
	if bad != nil {
		return err
	}
	return explain(ctx, err, connectivity.Server{Kind: connectivity.Redis, TLS: tlsConfig}, []string{address})
}

// explain explains an error by the server whose address it contains, else by the first one.
func explain(ctx context.Context, err error, s connectivity.Server, addresses []string) error {
	s.Address = addresses[0]
	var op *net.OpError
	if errors.As(err, &op) && op.Addr != nil && len(addresses) > 1 {
		s.Address = op.Addr.String()
	}
	return connectivity.Why(ctx, s, err)
}
