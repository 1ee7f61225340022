package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/tools/bench/copier"
)

type Size struct {
	Partitions int
	Items      int64 // of the catalogue
	Protobuf   bool  // impressions are in Protobuf
	Paid       bool  // each impression is selected and paid
	Viewed     bool  // ten viewers have the worker's page open
}

// Sizes are those of the table in docs/contribute/benchmarks.md.
const Sizes = "6x2000 6x20000 6x200000 6x200000+protobuf 6x200000+viewed 6x1000000 24x200000 64x200000 24x20000+paid"

// mostPartitions is more than one machine measures.
const mostPartitions = 1024

// variant is a property of a size, by its word after the size and its text in the table.
type variant struct {
	word, text string
	of         func(*Size) *bool
}

var variants = []variant{
	{"protobuf", "in Protobuf", func(s *Size) *bool { return &s.Protobuf }},
	{"paid", "every impression paid", func(s *Size) *bool { return &s.Paid }},
	{"viewed", "ten viewers of the page", func(s *Size) *bool { return &s.Viewed }},
}

// ParseSizes reads sizes in the format of Sizes: partitions, x and items, each variant after a +.
func ParseSizes(text string) (all []Size, err error) {
	for _, word := range strings.Fields(text) {
		s, size := Size{}, word
		for _, v := range slices.Backward(variants) {
			size, *v.of(&s) = strings.CutSuffix(size, "+"+v.word)
		}
		partitions, items, _ := strings.Cut(size, "x")
		if s.Partitions, err = strconv.Atoi(partitions); err == nil {
			s.Items, err = strconv.ParseInt(items, 10, 64)
		}
		if err != nil || s.Partitions < 1 || s.Partitions > mostPartitions || s.Items < 20 {
			return nil, fmt.Errorf("%q is no size: write 6x2000, 6x2000+protobuf, 6x2000+paid or 6x2000+viewed, for 1 to %d partitions and at least 20 items", word, mostPartitions)
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return nil, errors.New("no size is given")
	}
	return all, nil
}

// with returns the texts of a size's variants, each after sep.
func (s Size) with(sep string, text func(variant) string) (all string) {
	for _, v := range variants {
		if *v.of(&s) {
			all += sep + text(v)
		}
	}
	return all
}

func (s Size) String() string {
	return fmt.Sprintf("%dx%d%s", s.Partitions, s.Items, s.with("+", func(v variant) string { return v.word }))
}

// Growth is the cost of an impression as partitions, items and feedback grow.
type Growth struct {
	Impressions int64
	Rows        []Grown
}

type Grown struct {
	Size
	Pass
	Load float64 // load average over a minute, before the row began
}

const usualLearner = "{payoffs: stochastic}"

// RunGrowth measures each size: a worker process of its own that owns all partitions, with topics and a Redis of its own.
func RunGrowth(ctx context.Context, o Options) (*Growth, error) {
	g := &Growth{Impressions: o.Impressions}
	return g, o.measure(ctx, &Load{}, func(all *bench) error {
		for i, size := range o.Sizes {
			b := *all
			b.Partitions, b.Runs = size.Partitions, 1
			if size.Protobuf {
				b.formats = "formats: {impressions: protobuf}"
			}
			row := Grown{Size: size, Load: loadAverage()}
			passes, err := b.run(ctx, "growth", size, []program{{size.String(), func(ctx context.Context, c *broker.Client, _ bool) (Pass, error) {
				return b.alone(ctx, c, size, i == len(o.Sizes)-1)
			}}})
			if err != nil {
				return err
			}
			row.Pass = passes[0][0]
			g.Rows = append(g.Rows, row)
		}
		return nil
	})
}

func (b *bench) filled(ctx context.Context, inputs string, s Size) (*broker.Client, error) {
	c, err := b.create(ctx, b.topics(inputs, inputs), inputs)
	if err != nil {
		return nil, err
	}
	b.say("publishing %d impressions: %s", b.Impressions, s)
	if err := copier.Fill(ctx, copier.Config{Client: c, Partitions: s.Partitions, Records: b.Impressions, Items: s.Items, Paid: s.Paid, Protobuf: s.Protobuf}); err != nil {
		b.dropAll(ctx, c)
		return nil, err
	}
	return c, nil
}

// askEvery is the interval of requests for a worker's metrics, which take a millisecond or two.
const askEvery = 100 * time.Millisecond

// paid counts impressions like rankings, but the last only when all payoffs have been applied.
func (b *bench) paid(rankings progress, listen string) progress {
	var asked time.Time
	return func(ctx context.Context) (int64, error) {
		n, err := rankings(ctx)
		if err != nil || n < b.Impressions {
			return n, err
		}
		if time.Since(asked) < askEvery {
			return b.Impressions - 1, nil
		}
		asked = time.Now()
		families, err := scrapeMetrics(ctx, listen)
		if err != nil {
			return b.Impressions - 1, err
		}
		var applied, others float64
		for _, m := range families["ranker_payoffs_total"].GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "outcome" && l.GetValue() == "applied" {
					applied += m.GetCounter().GetValue()
				} else if l.GetName() == "outcome" {
					others += m.GetCounter().GetValue()
				}
			}
		}
		if int64(applied) < b.Impressions {
			return b.Impressions - 1, fmt.Errorf("%.0f payoffs were applied and %.0f were not, of %d", applied, others, b.Impressions)
		}
		return n, nil
	}
}

// look requests like a browser with the page open: the figures once a second, and the history every other second.
func look(ctx context.Context, url string) {
	client := &http.Client{Timeout: 8 * time.Second, Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for i := 0; ; i++ {
		_, _ = getBy(ctx, client, url+"/page/live.json") // a worker that starts or ends does not answer
		if i%2 == 0 {
			_, _ = getBy(ctx, client, url+"/page/history.json")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func usedMemory(ctx context.Context, addr string) (n int64, err error) {
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	defer func() { _ = client.Close() }()
	info, err := client.InfoMap(ctx, "memory").Result()
	if err != nil {
		return 0, fmt.Errorf("ask Redis for its memory: %w", err)
	}
	if n, err = strconv.ParseInt(info["Memory"]["used_memory"], 10, 64); err != nil {
		return 0, fmt.Errorf("ask Redis for its memory: %w", err)
	}
	return n, nil
}

func (g *Growth) Write(w io.Writer) error {
	var t strings.Builder
	fmt.Fprintf(&t, "One worker that owns all partitions, the default learner, %d impressions of 20 candidates in each row, all there before it starts\n\n", g.Impressions)
	t.WriteString("| partitions | items | impressions/s | worker's CPU each | worker's memory | Redis' memory | Redis' CPU each | load average |\n")
	t.WriteString("|---|---|---|---|---|---|---|---|\n")
	for i := range g.Rows {
		r := &g.Rows[i]
		partitions := strconv.Itoa(r.Partitions) + r.with(", ", func(v variant) string { return v.text })
		fmt.Fprintf(&t, "| %s | %s | %s | %s | %s MiB | %s MiB | %s | %.1f |\n", partitions, config.Grouped(r.Items), config.Grouped(roundTo(r.PerSecond, 100)), micros(r.CPU),
			config.Grouped(r.Memory>>20), config.Grouped(r.Stored>>20), micros(r.Pass.Redis), r.Load)
	}
	_, err := io.WriteString(w, t.String())
	return err
}

func roundTo(x float64, unit int64) int64 { return (int64(x) + unit/2) / unit * unit }
