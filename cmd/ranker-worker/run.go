package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/failpoint"
	"github.com/ranker-worker/ranker-worker/internal/garbage"
	"github.com/ranker-worker/ranker-worker/stream"
)

func newRunCommand() *cobra.Command {
	return verb(configFlag, &cobra.Command{
		Use:   "run [--config FILE]",
		Short: "Rank impressions and learn from payoffs, until stopped",
		Long: `Run the worker: join the consumer group, rank the impressions of its partitions, join selections and payoffs, and learn.

The first SIGINT or SIGTERM drains: the worker reads no new input, saves its work and leaves the group, so that another
worker can take over at once. A second one stops at once; the next owner then replays the unsaved work.
Neither loses or repeats anything.

SIGHUP reads the configuration again, and never ends the worker. log.level applies at once. If only learners were added, or
passwords or ca_files changed, the worker drains and continues with them, within about a second. Other changes are logged,
and need a restart. Files of passwords, tokens and client certificates need no signal: each connection reads them again.`,
		Example: "  ranker-worker run --config worker.yaml",
	}, runWorker)
}

func runWorker(c *call) error {
	cfg, err := c.load(config.KafkaFiles, config.RedisFiles)
	if err != nil {
		return err
	}
	defer garbage.Bound()()
	level, log := logOf(c, cfg)
	version, registry := processMetrics()
	options := app.Options{Logger: log, Version: version.Version}
	if failpoint.Enabled {
		testSettings(&options)
	}
	a, err := newReloads(cfg, options)
	if err != nil {
		return err
	}
	defer onHangup(func() { reload(a, c.file, level, log, config.KafkaFiles, config.RedisFiles) })()
	drain, force, stop := signals(c.ctx, log)
	defer stop()
	if cfg.HTTP.Listen == "" {
		sayStart(log, cfg, version, "nowhere")
		return whatIsMissing(a.Run(drain, force), c.file)
	}
	serves := stream.ServerConfig{Listen: cfg.HTTP.Listen, Pprof: cfg.HTTP.Pprof,
		Registry: prometheus.Gatherers{registry, a}, Unready: a.Unready, Dead: a.Dead, Version: version, Logger: log}
	if cfg.HTTP.Page {
		serves.Page = a
	}
	server, err := stream.NewServer(serves)
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w; set another host:port, or \"\" for none", cfg.Where("http.listen"), err), a.Close())
	}
	sayStart(log, cfg, version, server.Addr())
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()
	err = whatIsMissing(a.Run(drain, force), c.file)
	shutdown, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err = errors.Join(err, server.Shutdown(shutdown))
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	return err
}

// logOf returns the log of `run` and `serve`, and the variable that sets its level.
func logOf(c *call, cfg *config.Config) (*slog.LevelVar, *slog.Logger) {
	level := new(slog.LevelVar)
	level.Set(cfg.Log.Least())
	return level, cfg.Log.Logger(c.errOut(), level)
}

func processMetrics() (build, *prometheus.Registry) {
	version, registry := buildVersion(), prometheus.NewRegistry()
	stream.RegisterBuildInfo(registry, version.Version, version.Commit)
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return version, registry
}

func sayStart(log *slog.Logger, cfg *config.Config, version build, listens string) {
	begins := "with the oldest records"
	if cfg.Kafka.Start == config.Latest {
		begins = "with new records: older ones are skipped"
	}
	log.Info("ranker-worker starts", "version", version.String(), "group", cfg.Kafka.Group, "brokers", strings.Join(cfg.Kafka.Brokers, ","),
		"redis", strings.Join(cfg.Redis.Addresses, ","), "listens", listens, "reads", "on from where the group was; one that has never run begins "+begins)
}

// whatIsMissing adds the command that creates topics to an error about missing ones.
func whatIsMissing(err error, file string) error {
	if errors.Is(err, stream.ErrTopicMissing) {
		return fmt.Errorf("%w\nMake them with: ranker-worker topics --config %s --create", err, file)
	}
	return err
}

// signals returns two contexts: drain is done at the first SIGINT or SIGTERM, which is logged, or with ctx; force at the second. The third
// ends the process. A signal that came during the start has ended ctx, and counts.
func signals(ctx context.Context, log *slog.Logger) (drain, force context.Context, stop func()) {
	got := make(chan os.Signal, 2)
	signal.Notify(got, os.Interrupt, syscall.SIGTERM)
	drain, cancelDrain := context.WithCancel(ctx)
	force, cancelForce := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		select {
		case s := <-got:
			log.Info("draining; a second signal stops at once", "signal", s.String())
			cancelDrain()
		case <-done:
			return
		}
		select {
		case <-got:
			signal.Reset(os.Interrupt, syscall.SIGTERM) // of the command's context, too: a third one ends the process
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

// onHangup calls do at each SIGHUP, one call after another, until stop is called.
func onHangup(do func()) (stop func()) {
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGHUP)
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-got:
				do()
			case <-done:
				return
			}
		}
	})
	return func() {
		signal.Stop(got)
		close(done)
		wg.Wait()
	}
}

// reloader applies a changed configuration as far as it can, and returns the keys of settings that need a restart.
type reloader interface {
	takeOver(next *config.Config) (cannot []string, err error)
}

// reload applies a changed configuration to a running worker or `serve`, and logs the settings that need a restart.
func reload(running reloader, file string, level *slog.LevelVar, log *slog.Logger, files ...config.Files) {
	cfg, _, err := config.LoadFile(file, os.LookupEnv, files...)
	if err != nil {
		log.Error("the configuration was not reloaded; the present one stays in force", "error", err)
		return
	}
	level.Set(cfg.Log.Least())
	log.Info("the configuration was reloaded", "log.level", cfg.Log.Level)
	differing, err := running.takeOver(cfg)
	if err != nil {
		log.Error("the configuration cannot be taken over, that in force stays", "error", err)
	}
	if len(differing) > 0 {
		log.Warn("these settings differ from those in force, and hold after a restart", "settings", differing)
	}
}

// fixed is a configuration of which only the level is reloaded.
type fixed struct{ cfg *config.Config }

func (f fixed) takeOver(next *config.Config) ([]string, error) {
	return restOf(f.cfg.Differing(next)), nil
}

// restOf removes the keys that reload applies itself.
func restOf(keys []string) []string {
	return slices.DeleteFunc(keys, func(key string) bool { return key == "log.level" })
}

// testSettings applies the settings of tests under faults, in a binary built with the tag failpoints.
func testSettings(o *app.Options) {
	o.SessionTimeout, o.FenceInterval = failpoint.Duration("session_timeout"), failpoint.Duration("fence_interval")
	o.ClockOffset = failpoint.Clock
}
