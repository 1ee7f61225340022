package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/failpoint"
	"github.com/ranker-worker/ranker-worker/stream"
)

func newRunCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "run --config FILE",
		Short: "Rank impressions and learn from payoffs, until told to stop",
		Long: `Run the worker: join the consumer group, rank the impressions of the partitions it is given, join
selections and payoffs, and learn.

The first SIGINT or SIGTERM drains: no new input, what was decided is made durable, the group is left, so that
another worker can take over at once. A second one stops at once; the next owner then replays what was not saved.
Neither loses or repeats anything.`,
		Example: "  ranker-worker run --config worker.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runWorker(cmd, file)
		},
	}
	configFlag(cmd, &file)
	return cmd
}

func runWorker(cmd *cobra.Command, file string) error {
	cfg, err := loadConfig(cmd, file)
	if err != nil {
		return err
	}
	log := cfg.Log.Logger(cmd.ErrOrStderr())
	registry := prometheus.NewRegistry()
	version := buildVersion()
	stream.RegisterBuildInfo(registry, version.Version, version.Commit)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	options := app.Options{Logger: log, Registry: registry, Version: version.Version}
	if failpoint.Enabled {
		testSettings(&options)
	}
	a, err := app.New(cfg, options)
	if err != nil {
		return err
	}
	drain, force, stop := signals(cmd.Context(), func(s os.Signal) {
		log.Info("draining; a second signal stops at once", "signal", s.String())
	})
	defer stop()
	if cfg.HTTP.Listen == "" {
		return a.Run(drain, force)
	}
	server, err := stream.NewServer(stream.ServerConfig{Listen: cfg.HTTP.Listen, Pprof: cfg.HTTP.Pprof,
		Registry: registry, Unready: a.Worker.Unready, Dead: a.Worker.Dead, Version: version, Logger: log})
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", cfg.Where("http.listen"), err), a.Close())
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()
	err = a.Run(drain, force)
	shutdown, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err = errors.Join(err, server.Shutdown(shutdown))
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

// signals gives two contexts: drain is done at the first SIGINT or SIGTERM, or with ctx; force at the second.
func signals(ctx context.Context, first func(os.Signal)) (drain, force context.Context, stop func()) {
	got := make(chan os.Signal, 2)
	signal.Notify(got, os.Interrupt, syscall.SIGTERM)
	drain, cancelDrain := context.WithCancel(ctx)
	force, cancelForce := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		select {
		case s := <-got:
			first(s)
			cancelDrain()
		case <-done:
			return
		}
		select {
		case <-got:
			cancelForce()
		case <-done:
		}
	}()
	return drain, force, func() {
		signal.Stop(got)
		close(done)
		cancelDrain()
		cancelForce()
	}
}

// testSettings are what tests under faults change, in a binary built with the tag failpoints.
func testSettings(o *app.Options) {
	o.SessionTimeout, o.FenceInterval = failpoint.Duration("session_timeout"), failpoint.Duration("fence_interval")
	o.ClockOffset = failpoint.Clock
}
