package main

import (
	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/serve"
	"github.com/ranker-worker/ranker-worker/internal/tracing"
	"github.com/ranker-worker/ranker-worker/stream"
)

func newServeCommand() *cobra.Command {
	return verb(configFlag, &cobra.Command{
		Use:   "serve [--config FILE]",
		Short: "Take impressions, selections and payoffs over HTTP, and answer with rankings",
		Long: `Take records over HTTP, for clients that do not speak Kafka: POST /v1/rank answers an impression with its ranking,
/v1/selections and /v1/payoffs take the records that follow, GET /v1/rankings/{id} repeats a ranking. Records are those of
the topics (docs/records.md), and are written there before the answer. GET /v1/openapi.yaml describes the interface.

The workers of the same configuration (run) make the rankings. If a ranking is late, the answer after serve.timeout has the
candidates by utility, marked "substitute": true. Start as many servers as you like: they share nothing.

It listens on loopback only, unless serve.listen says otherwise; then set serve.tokens_file, serve.cert_file and
serve.key_file. SIGHUP reads the tokens and log.level again. The first SIGINT or SIGTERM drains: accepted requests are answered.`,
		Example: `  ranker-worker serve --config worker.yaml
  curl --json '{"impression_id":"i-1","candidates":[{"item":"a","utility":0.1},{"item":"b","utility":0.7}]}' \
    http://127.0.0.1:8081/v1/rank`,
	}, runServe)
}

func runServe(c *call) error {
	cfg, err := c.load(config.KafkaFiles, config.ServeFiles)
	if err != nil {
		return err
	}
	level, log := logOf(c, cfg)
	version, registry := processMetrics()
	b, err := app.NewBroker(cfg)
	if err != nil {
		return err
	}
	defer b.Close()
	traces, err := tracing.New(cfg, "ranker-worker-serve", version.Version, log)
	if err != nil {
		return err
	}
	defer traces.Close()
	d, err := serve.New(cfg, b, app.TopicNames(cfg), serve.Options{Logger: log, Metrics: serve.NewMetrics(registry), Tracers: traces.Tracers()})
	if err != nil {
		return err
	}
	defer onHangup(func() {
		d.Reload()
		reload(fixed{cfg}, c.file, level, log, config.KafkaFiles, config.ServeFiles)
	})()
	s, err := serve.Listen(d, stream.ServerConfig{Registry: registry, Unready: d.Unready, Version: version, Logger: log})
	if err != nil {
		return err
	}
	log.Info("ranker-worker serves", "version", version.String(), "group", cfg.Kafka.Group, "listens", s.Addr(), "tls",
		cfg.Serve.CertFile != "", "tokens", cfg.Serve.TokensFile != "")
	drain, force, stop := signals(c.ctx, log)
	defer stop()
	return s.Run(drain, force)
}
