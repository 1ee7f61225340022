// Command laboratory plays the experiments of the documentation, and writes their plots and tables to docs/laboratory, each table between
// its markers on one of the pages there. It is run in the repository's root.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ranker-worker/ranker-worker/internal/lab"
)

// directory holds the pages and the plots.
const directory = "docs/laboratory"

// Markers of a study's table.
func begin(name string) string { return "<!-- laboratory: " + name + " -->\n" }
func end(name string) string   { return "<!-- laboratory: end of " + name + " -->\n" }

func main() {
	only := flag.String("only", "", "play only the experiments whose name has this in it")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *only); err != nil {
		fmt.Fprintln(os.Stderr, "laboratory:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string) error {
	type part struct {
		name string
		fill func(ctx context.Context, table *bytes.Buffer) error
	}
	var all []part
	for _, s := range studies() {
		all = append(all, part{s.name, s.fill})
	}
	all = append(all, part{liftStudy, func(ctx context.Context, b *bytes.Buffer) error { return lifts(ctx, b, fullLifts) }},
		part{shareStudy, func(ctx context.Context, b *bytes.Buffer) error { return shares(ctx, b, fullShares) }},
		part{outlookStudy, func(ctx context.Context, b *bytes.Buffer) error { return outlooks(ctx, b, fullOutlooks) }},
		part{groupStudy, func(ctx context.Context, b *bytes.Buffer) error { return groupOutlooks(ctx, b, fullGroupOutlooks) }},
		part{coverageStudy, func(ctx context.Context, b *bytes.Buffer) error { return coverage(ctx, b, fullCoverage) }})
	for _, s := range all {
		if !strings.Contains(s.name, only) {
			continue
		}
		began := time.Now()
		var table bytes.Buffer
		if err := s.fill(ctx, &table); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(os.Stderr, "%s: %v\n", s.name, time.Since(began).Round(time.Second))
		if err := replace(s.name, table.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// replace puts a study's table between its markers. It fails unless exactly one page has both.
func replace(name string, table []byte) error {
	pages, err := filepath.Glob(filepath.Join(directory, "*.md"))
	if err != nil {
		return fmt.Errorf("listing the pages: %w", err)
	}
	var page string
	var text []byte
	for _, path := range pages {
		old, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("reading a page: %w", err)
		}
		before, rest, found := bytes.Cut(old, []byte(begin(name)))
		_, after, closed := bytes.Cut(rest, []byte(end(name)))
		switch {
		case !found || !closed:
			continue
		case page != "":
			return fmt.Errorf("%s and %s both have markers of %s", page, path, name)
		}
		page, text = path, bytes.Join([][]byte{before, []byte(begin(name)), table, []byte(end(name)), after}, nil)
	}
	if page == "" {
		return fmt.Errorf("no page of %s has both markers of %s", directory, name)
	}
	if err := os.WriteFile(page, text, 0o644); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// study is one experiment and the compared learners.
type study struct {
	name       string
	about      string
	experiment lab.Experiment
	rows       []lab.Settings
}

// fill plays a study, draws its plot, and writes its table.
func (s *study) fill(ctx context.Context, table *bytes.Buffer) error {
	results, err := s.play(ctx)
	if err != nil {
		return err
	}
	var picture bytes.Buffer
	if err := lab.Plot(&picture, "svg", results); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(directory, s.name+".svg"), picture.Bytes(), 0o644); err != nil {
		return fmt.Errorf("writing a picture: %w", err)
	}
	s.table(table, results)
	return nil
}

func (s *study) play(ctx context.Context) ([]*lab.Result, error) {
	e := &s.experiment
	e.Seed = 1
	if e.Runs == 0 {
		e.Runs = 16
	}
	if e.Items == 0 {
		e.Items = e.Scenario.DefaultItems()
	}
	var all []*lab.Combination
	for _, settings := range s.rows {
		some, notes, err := lab.Combine(e, &settings)
		if err != nil {
			return nil, err
		}
		if len(notes) > 0 {
			return nil, errors.New(strings.Join(notes, "; "))
		}
		all = append(all, some...)
	}
	return lab.Run(ctx, e, all)
}

// table writes a study's results, best first.
func (s *study) table(b *bytes.Buffer, results []*lab.Result) {
	e := &s.experiment
	fmt.Fprintf(b, "\n**`--scenario %s", e.Scenario)
	if e.Items != e.Scenario.DefaultItems() {
		fmt.Fprintf(b, " --items %d", e.Items)
	}
	fmt.Fprintf(b, " --horizon %d", e.Horizon)
	if e.PayoffDelay.Mean > 0 {
		fmt.Fprintf(b, " --payoff-delay %s", e.PayoffDelay)
	}
	if e.Runs != 16 {
		fmt.Fprintf(b, " --runs %d", e.Runs)
	}
	fmt.Fprintf(b, "`** %s\n\n![Regret curves](%s.svg)\n\n", s.about, s.name)
	bounds := []struct {
		name string
		of   func(*lab.Result) *float64
	}{
		{"upper bound", func(r *lab.Result) *float64 { return r.Bound }},
		{"lower bound", func(r *lab.Result) *float64 { return r.LowerBound }},
	}
	header, rule := "| | regret | ± stderr | deviation of a run |", "|---|---|---|---|"
	for k, bound := range bounds {
		if !slices.ContainsFunc(results, func(r *lab.Result) bool { return bound.of(r) != nil }) {
			bounds[k].of = nil
			continue
		}
		header += " " + bound.name + " |"
		rule += "---|"
	}
	fmt.Fprintf(b, "%s\n%s\n", header, rule)
	for _, r := range slices.SortedStableFunc(slices.Values(results), byRegret) {
		fmt.Fprintf(b, "| %s | %.0f | %.0f | %.0f |", r.Label(), r.Regret.Mean, *r.Regret.Stderr, *r.Regret.SD)
		for _, bound := range bounds {
			if bound.of != nil {
				fmt.Fprintf(b, " %s |", optional(bound.of(r)))
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

func byRegret(a, b *lab.Result) int { return cmp.Compare(a.Regret.Mean, b.Regret.Mean) }

func optional(x *float64) string {
	if x == nil {
		return ""
	}
	return fmt.Sprintf("%.0f", *x)
}
