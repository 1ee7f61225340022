package evaluate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/flatlog"
)

// Options configure an evaluation.
type Options struct {
	Units config.Range
	// PerImpression evaluates payoff per impression: one without a selection is worth 0. Not for flat logs.
	PerImpression bool
	// Clip bounds weights per selection; 0 is no bound.
	Clip float64
	// Plan, unless 0, is a difference from the log's policy: reports say how long a log decides whether a target is better by it. Per selection.
	Plan float64
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

type flat struct {
	opt     *Options
	in      *flatlog.Reader
	targets []*flatTarget
	model   means
	row     row
	uniform []float64
	paid    moments
}

// Flat evaluates targets on a flat log of any system: a header, then decisions in the order of time. Errors name file and line.
func Flat(ctx context.Context, file string, in io.Reader, targets []string, opt *Options) (*Report, error) {
	r, h, err := flatlog.Open(file, in, opt.Units)
	if err != nil {
		return nil, err
	}
	f := &flat{opt: opt, in: r}
	if err := f.begin(h, targets); err != nil {
		return nil, err
	}
	for {
		row, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return f.report(file), nil
		case err != nil:
			return nil, err
		}
		if err := f.judge(row); err != nil {
			return nil, err
		}
		if r.Line()%4096 != 0 {
			continue
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if f.opt.Progress != nil {
			f.opt.Progress(int64(f.paid.n))
		}
	}
}

func (f *flat) begin(h *flatlog.Header, targets []string) error {
	if len(targets) == 0 {
		targets = slices.Concat(slices.Sorted(maps.Keys(h.Targets)), h.InRows, []string{Uniform, Logging})
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
			return f.in.Fault("target %q is neither a list of probabilities nor one for each slot", name)
		}
		f.targets = append(f.targets, t)
	}
	return nil
}

// distribution returns an error unless all are n probabilities with sum 1.
func (f *flat) distribution(target, slot string, all []float64, n int) error {
	of := fmt.Sprintf("target %q", target)
	if slot != "" {
		of += fmt.Sprintf(" in slot %q", slot)
	}
	return f.in.Distribution(of, all, n)
}

func (f *flat) judge(r *flatlog.Row) error {
	u := f.opt.Units
	f.row.selected, f.row.logged, f.row.p = r.At, r.Propensities, r.P
	f.row.payoff = (*r.Payoff - u.Min) / (u.Max - u.Min)
	f.model.predict(&f.row, r.Items)
	for _, t := range f.targets {
		dist, err := f.of(t, r, len(r.Items))
		if err != nil {
			return err
		}
		if dist == nil { // the log's own
			t.est.own(f.row.payoff)
		} else {
			t.est.add(&f.row, dist)
		}
	}
	f.model.paid(r.Items[r.At], f.row.payoff)
	f.paid.add(f.row.payoff)
	return nil
}

// of returns a target's distribution in a row; nil for the log's own policy.
func (f *flat) of(t *flatTarget, r *flatlog.Row, n int) ([]float64, error) {
	if given, ok := r.Targets[t.name]; ok {
		return given, f.distribution(t.name, "", given, n)
	}
	dist := t.all
	if t.bySlot != nil {
		if dist = t.bySlot[r.Slot]; dist == nil {
			return nil, f.in.Fault("target %q has nothing for slot %q", t.name, r.Slot)
		}
	}
	switch {
	case dist != nil && len(dist) != n:
		return nil, f.in.Fault("target %q has %d probabilities for %d candidates", t.name, len(dist), n)
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
	return nil, f.in.Fault("target %q has no decision here: it is neither in the header nor in the row, and not %s or %s", t.name, Uniform, Logging)
}

func (f *flat) report(file string) *Report {
	n := int64(f.paid.n)
	r := &Report{Per: perSelection, Log: LogReport{Source: file, Records: n, Judged: n}}
	if mean, _ := f.paid.mean(); n > 0 {
		mean = f.opt.Units.Min + (f.opt.Units.Max-f.opt.Units.Min)*mean
		r.Log.Logged = &mean
	}
	for _, t := range f.targets {
		target := t.est.report(t.name, f.opt.Units, nil, f.paid.largest())
		t.est.plan(&target, f.opt.Plan, f.opt.Units, &pace{impressions: 1})
		r.Targets = append(r.Targets, target)
	}
	return r
}
