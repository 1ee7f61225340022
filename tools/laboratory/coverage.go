package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/evaluate"
	"github.com/ranker-worker/ranker-worker/internal/joinedlog"
	"github.com/ranker-worker/ranker-worker/internal/simulate"
	"github.com/ranker-worker/ranker-worker/internal/test/syntheticlog"
)

const coverageStudy = "coverage"

// coverageSize is the size of the study of errors of evaluate's intervals.
type coverageSize struct{ logs, impressions, looks int } // logs of each world

var fullCoverage = coverageSize{logs: 200, impressions: 6000, looks: 60}

// worlds are the logs' users and policies.
var worlds = []struct {
	policy string
	noise  float64
}{{"moss", 0}, {"moss", 0.05}, {"egreedy", 0}, {"egreedy", 0.05}}

// covered counts, for a target, the logs with a wrong interval.
type covered struct {
	judged, refused int
	ips, snips, dr  int // the interval of 95 % misses the truth
	sequence        int // the sequence does so at some look
	off, size       float64
	effective       float64
}

func coverage(ctx context.Context, b *bytes.Buffer, size coverageSize) error {
	fmt.Fprintf(b, "\n| log | target | logs refused | wrong: ips | snips | dr | at any of %d looks | dr: mean error | mean standard error | effective samples |\n", size.looks)
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|\n")
	for k, world := range worlds {
		all := map[string]*covered{}
		for _, name := range coverageTargets {
			all[name] = &covered{}
		}
		var mu sync.Mutex
		g, ctx := errgroup.WithContext(ctx)
		g.SetLimit(runtime.GOMAXPROCS(0))
		for seed := range uint64(size.logs) {
			g.Go(func() error {
				return coverageLog(ctx, &size, world.policy, world.noise, uint64(k+1)*1_000_000+seed, &mu, all)
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		for _, name := range coverageTargets {
			c := all[name]
			share := func(n int) string {
				if c.judged == 0 {
					return "–"
				}
				return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(c.judged))
			}
			n := float64(max(1, c.judged))
			fmt.Fprintf(b, "| %s, noise %g | %s | %.1f %% | %s | %s | %s | %s | %+.4f | %.4f | %.0f |\n", world.policy, world.noise, name,
				100*float64(c.refused)/float64(size.logs), share(c.ips), share(c.snips), share(c.dr), share(c.sequence), c.off/n, c.size/n, c.effective/n)
		}
	}
	return nil
}

var coverageTargets = []string{"utility", "greedy", "moss,prior=none"}

// coverageLog plays one log and evaluates it.
func coverageLog(ctx context.Context, size *coverageSize, policy string, noise float64, seed uint64, mu *sync.Mutex, all map[string]*covered) error {
	c := simulate.Defaults(seed)
	c.Items, c.Candidates, c.Interval, c.MaxDelay, c.Horizon = 20, 8, time.Minute, 12*time.Hour, 24*time.Hour
	w, err := syntheticlog.New(c, noise, config.Setting{"payoffs", "stochastic"}, config.Setting{"policy", policy})
	if err != nil {
		return err
	}
	if err := w.Play(size.impressions, seed); err != nil {
		return err
	}
	log, err := w.Journal(ctx)
	if err != nil {
		return err
	}
	defer log.Close()
	cfg := &config.Config{Learners: []config.Learner{w.Learner}}
	cfg.Kafka.Topics.Selections = "selections"
	var targets []*evaluate.Target
	for _, name := range coverageTargets {
		t, err := evaluate.ParseTarget(name, &w.Learner, cfg)
		if err != nil {
			return err
		}
		targets = append(targets, t)
	}
	truth, wrong := map[string]float64{}, map[string]bool{}
	look := func(rows int64, said []evaluate.TargetReport) {
		for i := range said {
			mean := truth[said[i].Target] / float64(rows)
			if s := said[i].Sequence; mean < s.Lower || mean > s.Upper {
				wrong[said[i].Target] = true
			}
		}
	}
	r, err := evaluate.Log(ctx, log, &w.Learner, targets, &evaluate.Options{Units: w.Learner.PayoffRange,
		Every: max(1, int64(size.impressions/size.looks)), Look: look,
		Decided: func(target string, k int32, order []int32) {
			if how := log.Outcomes[k].How; how == joinedlog.Paid || how == joinedlog.Unpaid {
				truth[target] += w.Worth(int(k), order)
			}
		}})
	if err != nil {
		return err
	}
	look(r.Log.Judged, r.Targets)
	mu.Lock()
	defer mu.Unlock()
	for i := range r.Targets {
		all[r.Targets[i].Target].add(&r.Targets[i], truth[r.Targets[i].Target]/float64(r.Log.Judged), wrong[r.Targets[i].Target])
	}
	return nil
}

// add adds a target's report for one log.
func (c *covered) add(t *evaluate.TargetReport, truth float64, wrong bool) {
	if t.Verdict == evaluate.Refused || t.DR.Lower == nil {
		c.refused++
		return
	}
	c.judged++
	out := func(v *evaluate.Value, n *int) {
		if truth < *v.Lower || truth > *v.Upper {
			*n++
		}
	}
	out(&t.IPS, &c.ips)
	out(&t.SNIPS, &c.snips)
	out(&t.DR, &c.dr)
	if wrong {
		c.sequence++
	}
	c.off += t.DR.Value - truth
	c.size += math.Abs(t.DR.Stderr)
	c.effective += t.EffectiveSamples
}
