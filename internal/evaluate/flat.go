package evaluate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/joinedlog"
)

// Options configure an evaluation.
type Options struct {
	Units config.Range
	// PerImpression evaluates payoff per impression: one without a selection is worth 0. Not for flat logs.
	PerImpression bool
	// Clip bounds weights per selection; 0 is no bound.
	Clip float64
	// Decided, unless nil, is called with a target's ranking of each row: utility ranks in the order shown. Not for flat logs.
	Decided func(target string, row int32, order []int32)
	// Look, unless nil, is called with the targets' present values after every Every judged rows.
	Every int64
	Look  func(rows int64, targets []TargetReport)
	// Progress, unless nil, is called now and then with the number of judged rows.
	Progress func(rows int64)
}

const (
	perSelection  = "selection"
	perImpression = "impression"
)

func (o *Options) per() string {
	if o.PerImpression {
		return perImpression
	}
	return perSelection
}

func (o *Options) clip() float64 {
	if o.Clip == 0 {
		return math.Inf(1)
	}
	return o.Clip
}

type header struct {
	Flat       int                        `json:"flat"`
	Candidates []string                   `json:"candidates"`
	Targets    map[string]json.RawMessage `json:"targets"`
}

type flatRow struct {
	Time         string               `json:"time"`
	Action       string               `json:"action"`
	Slot         string               `json:"slot"`
	Propensity   *float64             `json:"propensity"`
	Payoff       *float64             `json:"payoff"`
	Candidates   []string             `json:"candidates"`
	Propensities []float64            `json:"propensities"`
	Targets      map[string][]float64 `json:"targets"`
}

// Built-in targets.
const (
	Uniform = "uniform" // all candidates with equal probability
	Logging = "logging" // the log's own policy
)

type flatTarget struct {
	name   string
	all    []float64            // one distribution for all rows
	bySlot map[string][]float64 // or one by slot
	est    *estimator
}

const tolerance = 1e-6

type flat struct {
	file    string
	line    int
	opt     *Options
	header  header
	index   map[string]int // of the header's candidates
	numbers map[string]int32
	items   []int32 // of the header's candidates
	targets []*flatTarget
	model   means
	row     row
	uniform []float64
	scratch []int32
	last    time.Time
	paid    moments
}

// Flat evaluates targets on a flat log of any system: a header, then decisions in the order of time. Errors name file and line.
func Flat(ctx context.Context, file string, in io.Reader, targets []string, opt *Options) (*Report, error) {
	f := &flat{file: file, opt: opt, numbers: map[string]int32{}}
	lines := joinedlog.NewLineReader(in, 1<<20)
	for {
		f.line++
		line, err := lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			return f.end()
		case errors.Is(err, joinedlog.ErrLongLine):
			return nil, f.fault("%v", err)
		case err != nil:
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		if text := bytes.TrimSpace(line); len(text) > 0 {
			if err := f.take(ctx, text, targets); err != nil {
				return nil, err
			}
		}
	}
}

func (f *flat) end() (*Report, error) {
	if f.index == nil {
		return nil, f.fault(`it is empty: a flat log begins with {"flat":1,"candidates":[…]}`)
	}
	return f.report(), nil
}

func (f *flat) fault(format string, args ...any) error {
	return fmt.Errorf("%s:%d: %s", f.file, f.line, fmt.Sprintf(format, args...))
}

func (f *flat) take(ctx context.Context, line []byte, targets []string) error {
	if f.index == nil {
		return f.begin(line, targets)
	}
	if f.line%4096 == 0 {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if f.opt.Progress != nil {
			f.opt.Progress(int64(f.paid.n))
		}
	}
	var r flatRow
	if err := json.Unmarshal(line, &r); err != nil {
		return f.fault("%v", err)
	}
	return f.judge(&r)
}

func (f *flat) begin(line []byte, targets []string) error {
	h := &f.header
	if err := json.Unmarshal(line, h); err != nil || h.Flat != 1 {
		return f.fault(`a flat log begins with {"flat":1,"candidates":[…]}`)
	}
	f.index = map[string]int{}
	for k, name := range h.Candidates {
		if _, again := f.index[name]; again {
			return f.fault("candidate %q is there twice", name)
		}
		f.index[name] = k
		f.items = append(f.items, f.number(name))
	}
	if len(targets) == 0 {
		targets = append(slices.Sorted(maps.Keys(h.Targets)), Uniform, Logging)
	}
	for _, name := range targets {
		t := &flatTarget{name: name, est: newEstimator(f.opt.clip())}
		given, ok := h.Targets[name]
		switch {
		case !ok:
		case json.Unmarshal(given, &t.all) == nil:
			if err := f.distribution(name, "", t.all, len(h.Candidates)); err != nil {
				return err
			}
		case json.Unmarshal(given, &t.bySlot) == nil:
			for slot, all := range t.bySlot {
				if err := f.distribution(name, slot, all, len(h.Candidates)); err != nil {
					return err
				}
			}
		default:
			return f.fault("target %q is neither a list of probabilities nor one for each slot", name)
		}
		f.targets = append(f.targets, t)
	}
	return nil
}

// distribution returns an error unless all are n probabilities with sum 1.
func (f *flat) distribution(name, slot string, all []float64, n int) error {
	of := fmt.Sprintf("target %q", name)
	if slot != "" {
		of += fmt.Sprintf(" in slot %q", slot)
	}
	if len(all) != n {
		return f.fault("%s has %d probabilities for %d candidates", of, len(all), n)
	}
	sum := 0.0
	for _, p := range all {
		if p < 0 {
			return f.fault("%s has a probability of %v", of, p)
		}
		sum += p
	}
	if math.Abs(sum-1) > tolerance {
		return f.fault("%s adds up to %v", of, sum)
	}
	return nil
}

func (f *flat) number(name string) int32 {
	i, ok := f.numbers[name]
	if !ok {
		i = int32(len(f.numbers))
		f.numbers[name] = i
	}
	return i
}

func (f *flat) judge(r *flatRow) error {
	items, at, err := f.candidates(r)
	if err != nil {
		return err
	}
	if err := f.read(r, at, len(items)); err != nil {
		return err
	}
	f.model.predict(&f.row, items)
	for _, t := range f.targets {
		dist, err := f.of(t, r, len(items))
		if err != nil {
			return err
		}
		if dist == nil { // the log's own
			t.est.own(f.row.payoff)
		} else {
			t.est.add(&f.row, dist)
		}
	}
	f.model.paid(items[at], f.row.payoff)
	f.paid.add(f.row.payoff)
	return nil
}

// candidates returns a row's candidates as numbers, and the index of the selected one.
func (f *flat) candidates(r *flatRow) (items []int32, at int, err error) {
	items, known := f.items, false
	if r.Candidates == nil {
		at, known = f.index[r.Action]
	} else {
		items = f.scratch[:0]
		for k, name := range r.Candidates {
			if items = append(items, f.number(name)); name == r.Action {
				at, known = k, true
			}
			if slices.Contains(items[:k], items[k]) {
				return nil, 0, f.fault("candidate %q is there twice", name)
			}
		}
		f.scratch = items
	}
	if !known {
		return nil, 0, f.fault("action %q is not among the candidates", r.Action)
	}
	return items, at, nil
}

func (f *flat) read(r *flatRow, at, n int) error {
	x := &f.row
	x.selected, x.logged = at, r.Propensities
	switch {
	case r.Propensities != nil && len(r.Propensities) != n:
		return f.fault("%d propensities for %d candidates", len(r.Propensities), n)
	case r.Propensities != nil:
		if x.p = r.Propensities[at]; r.Propensity != nil && math.Abs(*r.Propensity-x.p) > tolerance {
			return f.fault("propensity is %v, and %v among the propensities", *r.Propensity, x.p)
		}
		if err := f.distribution("propensities", "", r.Propensities, n); err != nil {
			return err
		}
	case r.Propensity == nil:
		return f.fault("propensity is missing")
	default:
		x.p = *r.Propensity
	}
	if !(x.p >= leastProbability && x.p <= 1) {
		return f.fault("propensity is %v, must be in [%v, 1]", x.p, leastProbability)
	}
	u := f.opt.Units
	switch {
	case r.Payoff == nil:
		return f.fault("payoff is missing")
	case !(*r.Payoff >= u.Min && *r.Payoff <= u.Max):
		return f.fault("payoff %v lies outside [%v, %v]; give --payoff-range", *r.Payoff, u.Min, u.Max)
	}
	x.payoff = (*r.Payoff - u.Min) / (u.Max - u.Min)
	if r.Time == "" {
		return nil
	}
	now, err := time.Parse(time.RFC3339, r.Time)
	if err != nil {
		return f.fault("time %q is not of the form 2026-11-21T10:00:00Z", r.Time)
	}
	if now.Before(f.last) {
		return f.fault("its time is before that of a line above; sort the log by time")
	}
	f.last = now
	return nil
}

// of returns a target's distribution in a row; nil for the log's own policy.
func (f *flat) of(t *flatTarget, r *flatRow, n int) ([]float64, error) {
	if given, ok := r.Targets[t.name]; ok {
		return given, f.distribution(t.name, "", given, n)
	}
	dist := t.all
	if t.bySlot != nil {
		if dist = t.bySlot[r.Slot]; dist == nil {
			return nil, f.fault("target %q has nothing for slot %q", t.name, r.Slot)
		}
	}
	switch {
	case dist != nil && len(dist) != n:
		return nil, f.fault("target %q has %d probabilities for %d candidates", t.name, len(dist), n)
	case dist != nil:
		return dist, nil
	case t.name == Logging:
		return nil, nil
	case t.name == Uniform:
		f.uniform = f.uniform[:0]
		for range n {
			f.uniform = append(f.uniform, 1/float64(n))
		}
		return f.uniform, nil
	}
	return nil, f.fault("target %q has no decision here: it is neither in the header nor in the row, and not %s or %s", t.name, Uniform, Logging)
}

func (f *flat) report() *Report {
	n := int64(f.paid.n)
	r := &Report{Per: perSelection, Log: LogReport{Source: f.file, Records: n, Judged: n}}
	if mean, _ := f.paid.mean(); n > 0 {
		mean = f.opt.Units.Min + (f.opt.Units.Max-f.opt.Units.Min)*mean
		r.Log.Logged = &mean
	}
	for _, t := range f.targets {
		r.Targets = append(r.Targets, t.est.report(t.name, f.opt.Units, nil, f.paid.largest()))
	}
	return r
}
