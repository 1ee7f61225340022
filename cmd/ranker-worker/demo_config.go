package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/demo"
	"github.com/ranker-worker/ranker-worker/stream/broker"
)

// runOwnDemo starts an embedded Kafka and Redis at the addresses of a configuration, makes the topics, and runs `run` and `serve` of that
// configuration until it is interrupted.
func runOwnDemo(c *call) error {
	cfg, err := c.load(config.KafkaFiles, config.RedisFiles)
	if err != nil {
		return err
	}
	closePair, err := demo.StartPair(cfg)
	if err != nil {
		return err
	}
	defer closePair()
	ctx, cancel := context.WithCancel(c.cmd.Context())
	defer cancel()
	b, err := app.NewBroker(cfg)
	if err != nil {
		return err
	}
	defer b.Close()
	creating, created := context.WithTimeout(c.ctx, 30*time.Second)
	defer created()
	if _, err := b.Create(creating, broker.Spec{Partitions: demo.Partitions, Replication: 1}); err != nil {
		return fmt.Errorf("creating topics: %w", err)
	}
	fmt.Fprintf(c.out(), ownIntroduction, cfg.HTTP.Listen, cfg.Serve.Listen, cfg.Kafka.Brokers[0], cfg.Redis.Addresses[0])
	c.cmd.SetContext(ctx)
	ended := make(chan error, 2)
	for _, part := range []func(*call) error{runWorker, runServe} {
		go func() { ended <- part(c) }()
	}
	err = <-ended
	cancel()
	return errors.Join(err, <-ended)
}

const ownIntroduction = `Live page  http://%s/
Records    http://%s/v1/rank, /v1/selections, /v1/payoffs
Kafka      %s
Redis      %s
All of them are in this process, and forget everything when it ends (Ctrl-C).
`
