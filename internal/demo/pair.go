package demo

import (
	"errors"
	"fmt"
	"net"
	"strconv"

	"github.com/alicebob/miniredis/v2"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/ranker-worker/ranker-worker/config"
)

// Partitions is the number of partitions of the demo's topics.
const Partitions = 1

// StartPair starts an embedded Kafka broker and an embedded Redis at the addresses of a configuration. They keep everything in memory until
// closePair is called. It fails if an address is in use or not of this machine, and for logins and TLS, which the pair does not have.
func StartPair(cfg *config.Config) (closePair func(), err error) {
	kafka, redis := &cfg.Kafka, &cfg.Redis
	switch {
	case kafka.SASL.Mechanism != "" || kafka.TLS.Enabled:
		return nil, fmt.Errorf("%s: the embedded broker has no TLS and no logins", cfg.Where("kafka"))
	case redis.TLS.Enabled || redis.Cluster || redis.Password != "" || redis.PasswordFile != "":
		return nil, fmt.Errorf("%s: the embedded Redis has no TLS, no logins and no cluster", cfg.Where("redis"))
	}
	port, err := portOf(kafka.Brokers)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Where("kafka.brokers"), err)
	}
	redisPort, err := portOf(redis.Addresses)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Where("redis"), err)
	}
	fake, err := startKafka(port)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.Where("kafka.brokers"), err)
	}
	mini, err := startRedis(redisPort)
	if err != nil {
		fake.Close()
		return nil, fmt.Errorf("%s: %w", cfg.Where("redis"), err)
	}
	return func() {
		mini.Close()
		fake.Close()
	}, nil
}

// startKafka starts an embedded broker on loopback; port 0 is any free one.
func startKafka(port int) (*kfake.Cluster, error) {
	fake, err := kfake.NewCluster(kfake.Ports(port))
	if err != nil {
		return nil, fmt.Errorf("starting the embedded broker: %w", err)
	}
	return fake, nil
}

// startRedis starts an embedded Redis likewise.
func startRedis(port int) (*miniredis.Miniredis, error) {
	mini := miniredis.NewMiniRedis()
	if err := mini.StartAddr(net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err != nil {
		return nil, fmt.Errorf("starting the embedded Redis: %w", err)
	}
	return mini, nil
}

// portOf returns the port of the only address, which must be of loopback.
func portOf(addresses []string) (int, error) {
	if len(addresses) != 1 {
		return 0, errors.New("the embedded pair has one address each")
	}
	host, port, err := net.SplitHostPort(addresses[0])
	if err != nil {
		return 0, err
	}
	if host != "127.0.0.1" && host != "localhost" {
		return 0, fmt.Errorf("%s is not 127.0.0.1, where the embedded pair listens", host)
	}
	return strconv.Atoi(port)
}
