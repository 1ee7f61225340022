package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Viewers are consecutive runs without and with viewers.
type Viewers struct {
	Options Options
	Load    Load
	Pairs   []Watched
}

// Watched are two drains of the same impressions, and the number of requests for the page's figures in the second.
type Watched struct {
	Alone, Seen Pass
	Asked       int64
}

// watchedLearner's decisions read all statistics of each candidate.
const watchedLearner = "{payoffs: stochastic, policy: moss, delay: direct}"

// RunViewers measures the cost of the live page's viewers.
func RunViewers(ctx context.Context, o Options) (*Viewers, error) {
	r := &Viewers{Options: o}
	return r, o.measure(ctx, &r.Load, func(b *bench) error {
		inputs := fmt.Sprintf("viewers-%d", time.Now().UnixNano())
		c, err := b.filled(ctx, inputs, Size{Partitions: o.Partitions, Items: o.Items})
		if err != nil {
			return err
		}
		defer c.Close()
		for i := range o.Runs {
			var w Watched
			run := fmt.Sprintf("%s-%d", inputs, i)
			if err := inTurn(i,
				func() (err error) { w.Alone, _, err = b.viewedPass(ctx, inputs, run+"-alone", 0); return err },
				func() (err error) {
					w.Seen, w.Asked, err = b.viewedPass(ctx, inputs, run+"-seen", o.Viewers)
					return err
				},
			); err != nil {
				return err
			}
			b.say("run %d: alone %.0f/s, %v; with %d viewers, who asked %d times, %.0f/s, %v", i+1, w.Alone.PerSecond, w.Alone.CPU, o.Viewers, w.Asked,
				w.Seen.PerSecond, w.Seen.CPU)
			r.Pairs = append(r.Pairs, w)
		}
		return nil
	})
}

// viewedPass is one drain by a worker with viewers.
func (b *bench) viewedPass(ctx context.Context, inputs, run string, viewers int) (p Pass, asked int64, err error) {
	topics := b.topics(inputs, run)
	c, err := b.create(ctx, topics, run)
	if err != nil {
		return p, 0, err
	}
	defer b.drop(ctx, c)
	w, listen, err := b.worker(ctx, topics, run, "earliest", watchedLearner)
	if err != nil {
		return p, 0, err
	}
	looking, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var count atomic.Int64
	for range viewers {
		wg.Go(func() { look(looking, "http://"+listen, &count) })
	}
	p, err = b.watch(ctx, w, b.rankings(c, int64(b.Partitions)))
	stop()
	wg.Wait()
	if stopErr := w.stop(); err == nil {
		err = stopErr
	}
	if err == nil && viewers > 0 && count.Load() == 0 {
		err = errors.New("no viewer was ever answered: raise -impressions, so that a drain takes some seconds")
	}
	return p, count.Load(), err
}

// look requests like a browser with the page open: the figures once a second, and the history every other second.
func look(ctx context.Context, url string, asked *atomic.Int64) {
	client := &http.Client{Timeout: 8 * time.Second, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for i := 0; ; i++ {
		if _, err := getBy(ctx, client, url+"/page/live.json"); err == nil {
			asked.Add(1)
		}
		if i%2 == 0 {
			_, _ = getBy(ctx, client, url+"/page/history.json") // a worker that starts or ends does not answer
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Ratio returns the ratio of runs with viewers to the preceding ones without: median, least and most.
func (r *Viewers) Ratio(of func(*Pass) float64) (mid, least, most float64) {
	var all []float64
	for i := range r.Pairs {
		all = append(all, of(&r.Pairs[i].Seen)/of(&r.Pairs[i].Alone))
	}
	mid = median(all) // sorts
	return mid, all[0], all[len(all)-1]
}

func (r *Viewers) Write(w io.Writer) error {
	var t strings.Builder
	o := &r.Options
	middle := func(of func(*Watched) float64) float64 {
		var all []float64
		for i := range r.Pairs {
			all = append(all, of(&r.Pairs[i]))
		}
		return median(all)
	}
	fmt.Fprintf(&t, "One worker, %d partitions, %d impressions of 20 of %d items, %d runs each in turn; load average %.1f before, %.1f after\n\n",
		o.Partitions, o.Impressions, o.Items, len(r.Pairs), r.Load[0], r.Load[1])
	row := func(what string, unit string, of func(*Pass) float64) {
		mid, least, most := r.Ratio(of)
		fmt.Fprintf(&t, "| %-20s | %9.1f %-4s | %9.1f %-4s | **%.3f** (%.3f to %.3f) |\n", what, middle(func(w *Watched) float64 { return of(&w.Alone) }), unit,
			middle(func(w *Watched) float64 { return of(&w.Seen) }), unit, mid, least, most)
	}
	fmt.Fprintf(&t, "| %-20s | %-14s | %-14s | ratio: median (least to most) |\n|---|---|---|---|\n", "medians", "nobody looks", fmt.Sprintf("%d viewers", o.Viewers))
	row("impressions", "/s", func(p *Pass) float64 { return p.PerSecond })
	row("CPU per impression", "µs", func(p *Pass) float64 { return float64(p.CPU.Nanoseconds()) / 1000 })
	fmt.Fprintf(&t, "\nAim: impressions/s with viewers at least 0.98 of those without.\n")
	_, err := io.WriteString(w, t.String())
	return err
}
