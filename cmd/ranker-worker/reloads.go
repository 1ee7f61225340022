package main

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
)

// reloads runs one worker after another in this process, for reloads. A changed configuration gets an app of its own, which starts when
// the previous one has drained. The HTTP server continues with the present app. Each app has its own registry, since its metrics begin at
// 0. Run is for one goroutine; other methods are safe for concurrent use.
type reloads struct {
	options app.Options
	log     *slog.Logger

	mu      sync.Mutex
	present configured
	next    *configured        // begins when the present one has ended; nil: none
	end     context.CancelFunc // drains the present one; nil before Run
	over    bool               // Run has returned, or is about to
}

type configured struct {
	cfg         *config.Config
	app         *app.App
	registry    *prometheus.Registry
	page        http.Handler
	authorities string // when it was made
}

func newReloads(cfg *config.Config, options app.Options) (*reloads, error) {
	s := &reloads{options: options, log: options.Logger}
	first, err := s.configured(cfg)
	if err != nil {
		return nil, err
	}
	s.present = *first
	return s, nil
}

func (s *reloads) configured(cfg *config.Config) (*configured, error) {
	authorities, err := cfg.Authorities()
	if err != nil {
		return nil, err
	}
	options := s.options
	options.Registry = prometheus.NewRegistry()
	a, err := app.New(cfg, options)
	if err != nil {
		return nil, err
	}
	return &configured{cfg, a, options.Registry, a.Board.Handler(), authorities}, nil
}

// takeOver implements reloader, for changes of added learners, passwords and authorities only: without the latter the worker could lose its
// servers soon. It makes the app at once, so that a fault leaves the present one running.
func (s *reloads) takeOver(cfg *config.Config) (cannot []string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest, added := s.present.cfg.Added(cfg)
	rest = restOf(rest)
	if slices.ContainsFunc(rest, func(key string) bool { return !config.IsPassword(key) }) {
		for _, name := range added {
			rest = append(rest, "learners."+name)
		}
		return rest, nil
	}
	next, err := s.configured(cfg)
	if err != nil {
		return nil, err
	}
	newest := &s.present
	if s.next != nil {
		newest = s.next
	}
	if s.over || next.authorities == newest.authorities && len(restOf(newest.cfg.Differing(cfg))) == 0 {
		return nil, next.app.Close()
	}
	_ = s.drop() // it has not connected
	s.next = next
	s.log.Info("draining, to go on with the new configuration", "learners", "["+strings.Join(added, " ")+"]", "secrets", rest,
		"authorities", next.authorities != s.present.authorities)
	if s.end != nil {
		s.end()
	}
	return nil, nil
}

// drop drops the next app; the caller holds the lock.
func (s *reloads) drop() error {
	next := s.next
	if s.next = nil; next == nil {
		return nil
	}
	return next.app.Close()
}

// Run works until drain is done, then drains, or ends at once when force is done.
func (s *reloads) Run(drain, force context.Context) error {
	for {
		running, end := context.WithCancel(drain)
		s.mu.Lock()
		s.end = end
		present := s.present.app
		if s.next != nil { // SIGHUP came before the end
			end()
		}
		s.mu.Unlock()
		err := present.Run(running, force)
		end()
		s.mu.Lock()
		if err != nil || drain.Err() != nil || force.Err() != nil || s.next == nil {
			s.over = true
			err = errors.Join(err, s.drop())
			s.mu.Unlock()
			return err
		}
		s.present, s.next = *s.next, nil
		s.mu.Unlock()
	}
}

// Close releases the apps if Run is not called.
func (s *reloads) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	return errors.Join(s.drop(), s.present.app.Close())
}

func (s *reloads) now() configured {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.present
}

// Gather implements prometheus.Gatherer: the present app's metrics.
func (s *reloads) Gather() ([]*dto.MetricFamily, error) { return s.now().registry.Gather() }

func (s *reloads) Unready() []string { return s.now().app.Worker.Unready() }

func (s *reloads) Dead() error { return s.now().app.Worker.Dead() }

func (s *reloads) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.now().page.ServeHTTP(w, r) }
