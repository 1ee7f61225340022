package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ranker-worker/ranker-worker/tools/bench/copier"
)

type ViewersOptions struct {
	Kafka, Redis string // host:port
	Partitions   int
	Impressions  int64 // of one drain
	Items        int64 // of the catalogue
	Runs         int   // drains without viewers and with them each, in turn
	Viewers      int
	Verbose      io.Writer // progress messages; nil: none
}

// Viewers are consecutive runs without and with viewers.
type Viewers struct {
	Options ViewersOptions
	Load    [2]float64 // load average over a minute, before and after
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
func RunViewers(ctx context.Context, o ViewersOptions) (*Viewers, error) {
	if o.Verbose == nil {
		o.Verbose = io.Discard
	}
	dir, err := os.MkdirTemp("", "ranker-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the benchmark: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b := &bench{Options: Options{Kafka: o.Kafka, Redis: o.Redis, Partitions: o.Partitions, Impressions: o.Impressions, Verbose: o.Verbose}, dir: dir}
	if err := build(ctx, filepath.Join(dir, "worker"), "cmd/ranker-worker"); err != nil {
		return nil, err
	}
	r := &Viewers{Options: o}
	r.Load[0] = loadAverage()
	inputs := fmt.Sprintf("viewers-%d", time.Now().UnixNano())
	c, err := b.create(ctx, b.topics(inputs, inputs), inputs)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	b.say("publishing %d impressions of %d items", o.Impressions, o.Items)
	if err := copier.Fill(ctx, copier.Config{Client: c, Partitions: o.Partitions, Records: o.Impressions, Items: o.Items}); err != nil {
		return nil, err
	}
	for i := range o.Runs {
		var w Watched
		run := fmt.Sprintf("%s-%d", inputs, i)
		passes := []func() error{
			func() (err error) { w.Alone, _, err = b.viewedPass(ctx, inputs, run+"-alone", 0); return err },
			func() (err error) {
				w.Seen, w.Asked, err = b.viewedPass(ctx, inputs, run+"-seen", o.Viewers)
				return err
			},
		}
		if i%2 == 1 { // so that the order affects both alike
			slices.Reverse(passes)
		}
		for _, pass := range passes {
			if err := pass(); err != nil {
				return nil, err
			}
		}
		b.say("run %d: alone %.0f/s, %v; with %d viewers, who asked %d times, %.0f/s, %v", i+1, w.Alone.PerSecond, w.Alone.CPU, o.Viewers, w.Asked,
			w.Seen.PerSecond, w.Seen.CPU)
		r.Pairs = append(r.Pairs, w)
	}
	r.Load[1] = loadAverage()
	return r, nil
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
		if askPage(ctx, client, url+"/page/live.json") == nil {
			asked.Add(1)
		}
		if i%2 == 0 {
			_ = askPage(ctx, client, url+"/page/history.json") // a worker that starts or ends does not answer
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func askPage(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err = io.Copy(io.Discard, response.Body); err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, response.Status)
	}
	return err
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
