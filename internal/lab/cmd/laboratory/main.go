// Command laboratory plays the experiments that the documentation shows, and writes their table into
// docs/algorithms.md, between its markers, and their plots to docs/laboratory. It is run in the module's root.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/ranker-worker/ranker-worker/internal/lab"
)

const (
	page     = "docs/algorithms.md"
	pictures = "docs/laboratory"
	begin    = "<!-- laboratory: begin (make laboratory) -->\n"
	end      = "<!-- laboratory: end -->\n"
)

func main() {
	only := flag.String("only", "", "play the experiments whose name has this in it, and print their tables instead of writing them")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *only); err != nil {
		fmt.Fprintln(os.Stderr, "laboratory:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string) error {
	var tables bytes.Buffer
	for _, s := range studies() {
		if !strings.Contains(s.name, only) {
			continue
		}
		began := time.Now()
		results, err := s.play(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(os.Stderr, "%s: %v\n", s.name, time.Since(began).Round(time.Second))
		s.table(&tables, results)
		if only != "" {
			continue
		}
		var picture bytes.Buffer
		if err := lab.Plot(&picture, "svg", results); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(pictures, s.name+".svg"), picture.Bytes(), 0o644); err != nil {
			return fmt.Errorf("writing a picture: %w", err)
		}
	}
	if only != "" {
		_, err := os.Stdout.Write(tables.Bytes())
		return err
	}
	return replace(tables.Bytes())
}

// replace puts the tables between the page's markers.
func replace(tables []byte) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return fmt.Errorf("reading the page: %w", err)
	}
	before, rest, found := bytes.Cut(old, []byte(begin))
	_, after, closed := bytes.Cut(rest, []byte(end))
	if !found || !closed {
		return errors.New(page + " has not both markers")
	}
	text := bytes.Join([][]byte{before, []byte(begin), tables, []byte(end), after}, nil)
	if err := os.WriteFile(page, text, 0o644); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}

// study is one experiment with what is compared in it.
type study struct {
	name       string
	about      string
	experiment lab.Experiment
	rows       []lab.Settings
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
	if e.Lateness.Mean > 0 {
		fmt.Fprintf(b, " --payoff-delay %s", e.Lateness)
	}
	if e.Runs != 16 {
		fmt.Fprintf(b, " --runs %d", e.Runs)
	}
	fmt.Fprintf(b, "`** %s\n\n![Regret curves](laboratory/%s.svg)\n\n", s.about, s.name)
	b.WriteString("| | regret | ± stderr | deviation of a run | upper bound | lower bound |\n|---|---|---|---|---|---|\n")
	for _, r := range lab.Ordered(results) {
		fmt.Fprintf(b, "| %s | %.0f | %.0f | %.0f | %s | %s |\n", r.Label(), r.Regret.Mean, *r.Regret.Stderr, *r.Regret.SD,
			optional(r.Bound), optional(r.LowerBound))
	}
}

func optional(x *float64) string {
	if x == nil {
		return ""
	}
	return fmt.Sprintf("%.0f", *x)
}
