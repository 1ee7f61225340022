package admin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/flatlog"
	"github.com/ranker-worker/ranker-worker/internal/plural"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// ErrNotEmpty means that a learner is not new.
var ErrNotEmpty = errors.New("the learner has learned or decided before")

// WarmQuery selects the learner of a warm start.
type WarmQuery struct {
	Learner string  // empty: the default learner
	Weight  float64 // of a past selection, in (0,1]
}

// WarmReport describes a warm start.
type WarmReport struct {
	Learner    string `json:"learner"`
	Selections int64  `json:"selections"` // read
	Items      int    `json:"items"`
	Payoffs    int64  `json:"payoffs"` // fed, weighed down
	TooFew     int    `json:"too_few"` // items with too few selections to count as one
}

// Warm adds past selections to a learner that has no state, from a flat log or a table of totals; see package flatlog. They go to partition
// 0, from which all others read pooled statistics. It refuses while the group has live members. It fails with ErrNotEmpty if the learner is
// not new, and with delay.ErrWarm if it cannot begin so. It lists all faulty lines.
//
// A group that has never run begins here, as with Import.
func (tool *Tool) Warm(ctx context.Context, file string, in io.Reader, q WarmQuery) (*WarmReport, error) {
	l, err := tool.newcomer(q.Learner)
	if err != nil {
		return nil, err
	}
	from, r, err := tool.readPast(ctx, file, in, l, q.Weight)
	if err != nil {
		return nil, err
	}
	if err := tool.stopped(ctx); err != nil {
		return nil, err
	}
	n, err := tool.partitions(ctx)
	if err != nil {
		return nil, err
	}
	for p := range int32(n) {
		v, err := tool.look(ctx, p)
		if errors.Is(err, state.ErrNoState) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if err := untouched(v.machine, p, l.Name); err != nil {
			return nil, err
		}
	}
	if err := tool.beginMissing(ctx, int32(n)); err != nil {
		return nil, err
	}
	h := History{Done: "warm", Learner: l.Name, Payoffs: r.Payoffs, Detail: fmt.Sprintf("%s of %s in %s, weight %v",
		plural.N(r.Selections, "selection"), plural.N(r.Items, "item"), file, q.Weight)}
	return r, tool.addStatistics(ctx, 0, h, []*partition.Offline{from}, func(to *partition.Offline, _ []History) error {
		if err := untouched(to, 0, l.Name); err != nil {
			return err
		}
		to.CountWarmed(l.Name, r.Payoffs)
		return nil
	})
}

func untouched(m *partition.Offline, p int32, learner string) error {
	if m.Untouched(learner) {
		return nil
	}
	return fmt.Errorf("%w: %q in partition %d. Reset it (state reset), or add a learner under a new name", ErrNotEmpty, learner, p)
}

// newcomer returns the learner of a name, or the default one.
func (tool *Tool) newcomer(name string) (*config.Learner, error) {
	if name != "" {
		return tool.learner(name)
	}
	if l := tool.cfg.LearnerOrDefault(""); l != nil {
		return l, nil
	}
	return nil, errors.New("say which learner with --learner: none is the default")
}

// readPast returns a machine whose learner has learned from a file.
func (tool *Tool) readPast(ctx context.Context, file string, in io.Reader, l *config.Learner, weight float64) (*partition.Offline, *WarmReport, error) {
	m, err := tool.emptyMachine(0)
	if err != nil {
		return nil, nil, err
	}
	w, err := partition.NewWarming(m, l.Name, weight, tool.now().UnixMilli())
	if err != nil {
		return nil, nil, fmt.Errorf("learner %q: %w", l.Name, err)
	}
	r := &WarmReport{Learner: l.Name}
	var faults []error
	faulty := func(err error) { faults = append(faults, err) }
	text := bufio.NewReaderSize(in, 1<<16)
	if first, _ := text.Peek(1 << 12); flatlog.IsLog(first) {
		err = tool.readFlat(ctx, file, text, l, w, r, faulty)
	} else {
		err = flatlog.ReadTotals(file, text, func(t *flatlog.Total) error {
			r.Selections += t.Selections
			return w.Total(t.Item, t.Selections, t.Payoffs, t.Squares)
		}, faulty)
	}
	if err = errors.Join(errors.Join(faults...), err); err != nil {
		return nil, nil, err
	}
	r.Payoffs, r.Items, r.TooFew = w.End()
	if r.Payoffs == 0 {
		return nil, nil, fmt.Errorf("%s has no selections that count with weight %v", file, weight)
	}
	return m, r, nil
}

func (tool *Tool) readFlat(ctx context.Context, file string, in io.Reader, l *config.Learner, w *partition.Warming, r *WarmReport, bad func(error)) error {
	log, _, err := flatlog.Open(file, in, l.PayoffRange)
	if err != nil {
		return err
	}
	for {
		row, err := log.Next()
		var faulty *flatlog.Fault
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &faulty):
			bad(err)
			continue
		case err != nil:
			return err
		}
		began := int64(0)
		if !row.Began.IsZero() {
			began = row.Began.UnixMilli()
		}
		if err := w.Selection(row.Action, began, *row.Payoff, row.P); err != nil {
			bad(log.Fault("%v", err))
		}
		if r.Selections++; r.Selections%4096 == 0 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			tool.say("%s read", plural.N(r.Selections, "selection"))
		}
	}
}
