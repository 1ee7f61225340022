package evaluate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/joinedlog"
	"github.com/ranker-worker/ranker-worker/internal/plural"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// flight is a row that has not ended, with its decision's slices.
type flight struct {
	row        int32
	selected   int32 // utility rank; -1 for none yet
	item       policy.Item
	began      int64
	p          float64 // the selection's probability by the log's policy
	inParts    bool
	before     float64
	candidates []policy.Item
	order      []int32
}

// judge plays a log for targets.
type judge struct {
	log     *joinedlog.Log
	learner *config.Learner
	opt     *Options
	unpaid  *float64 // payoff of a selection never paid, in [0,1]; nil if unknown
	players []*player
	windows windows
	per     *impressions // nil: per selection
	worth   []float64    // scratch
	model   means
	row     row
	items   int32
	paid    moments // normalised
	judged  int64
	unsaid  int64     // unpaid rows of unknown payoff
	missed  int64     // selections that are impossible by the windows or recorded propensities
	outside int64     // payoffs outside the range
	again   []float64 // probabilities by the log's recorded propensities
	looking looking
	depth   float64 // of the present row's selection
	off     float64
	slots   map[int32]int32 // by row in flight
	flights []flight
	free    []int32
	// impression is the present row's, as far as contexts need it.
	impression event.Impression
	decoder    *event.Decoder
}

// Log evaluates targets on a learner's log, which must have been read with the targets' shadows, in their order.
func Log(ctx context.Context, log *joinedlog.Log, l *config.Learner, targets []*Target, opt *Options) (*Report, error) {
	w, err := newWindows(log, l)
	if err != nil {
		return nil, err
	}
	var per *impressions
	if opt.PerImpression {
		if per, err = newImpressions(ctx, log, l, &w); err != nil {
			return nil, err
		}
	}
	j := &judge{per: per, log: log, learner: l, opt: opt, windows: w, slots: map[int32]int32{}, decoder: event.NewKeylessDecoder(event.Limits{}).WithContext()}
	if d := l.OnExpiry.Default; d != nil {
		x := j.normalised(*d)
		j.unpaid = &x
	}
	shadows := 0
	for _, t := range targets {
		p := t.play(opt.clip())
		if per != nil {
			p.per = per.model.Estimate(per.rows)
		}
		if t.shadow != "" {
			p.recorded = shadows
			shadows++
		}
		j.players = append(j.players, p)
	}
	var events int64
	err = log.Play(func(e *joinedlog.Event) error {
		if events++; events%4096 == 0 {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if opt.Progress != nil {
				opt.Progress(j.judged)
			}
		}
		return j.event(e)
	})
	if err != nil {
		return nil, err
	}
	return j.report(), nil
}

func (j *judge) raw(x float64) float64 {
	r := j.learner.PayoffRange
	return r.Min + (r.Max-r.Min)*x
}

// normalised returns a payoff clipped to [0,1].
func (j *judge) normalised(raw float64) float64 {
	r := j.learner.PayoffRange
	return min(max((raw-r.Min)/(r.Max-r.Min), 0), 1)
}

func (j *judge) event(e *joinedlog.Event) error {
	if e.Kind == joinedlog.Decided {
		return j.decided(e)
	}
	slot, ok := j.slots[e.Row]
	if !ok {
		return fmt.Errorf("row %d has ended before", e.Row)
	}
	x := &j.flights[slot]
	fb := delay.Feedback{Ref: int64(x.row), Item: x.item, Began: x.began, Propensity: x.p, InParts: x.inParts, Before: x.before}
	switch e.Kind {
	case joinedlog.WasSelected:
		out := &j.log.Outcomes[e.Row]
		x.selected, x.item = out.Selected, x.candidates[out.Selected]
		fb.Item, fb.Utility, fb.HasUtility = x.item, e.Utility, e.HasUtility
	case joinedlog.PaidPart, joinedlog.WasPaid:
		fb.Payoff, fb.Age = j.normalised(e.Payoff), max(0, e.Age)
	case joinedlog.NeverPaid:
		if j.unpaid != nil && !j.log.Outcomes[e.Row].Refused {
			fb.Payoff, fb.Age, fb.Defaulted = *j.unpaid, j.learner.PayoffHorizon.Milliseconds(), true
		}
	}
	keep := e.Kind == joinedlog.WasSelected
	// Without a selections topic, no impression is known to be unselected.
	unselected := e.Kind == joinedlog.NotSelected && j.learner.SelectionTimeout > 0
	for _, p := range j.players {
		if p.learner == nil {
			continue
		}
		p.advance(e.At, j.items)
		if keep {
			p.selected(x, slot)
		}
		own := p.feedback(fb, x, slot)
		if keep || p.needs.Candidates || unselected && p.needs.Ranking {
			own.Candidates, own.Order = x.candidates, x.order
		}
		feed(p.learner, e.Kind, own)
	}
	switch e.Kind {
	case joinedlog.PaidPart:
		x.inParts, x.before = true, fb.Payoff
	case joinedlog.WasSelected:
		j.shrink(x)
	default:
		j.end(slot)
	}
	return nil
}

func feed(l delay.Learner, kind joinedlog.Kind, fb delay.Feedback) {
	switch {
	case kind == joinedlog.WasSelected:
		l.Selected(fb)
	case kind == joinedlog.PaidPart:
		l.Partial(fb)
	case kind == joinedlog.WasPaid || fb.Defaulted:
		l.Paid(fb)
	case kind == joinedlog.NeverPaid:
		l.Expired(fb)
	default:
		l.Unselected(fb)
	}
}

func (j *judge) shrink(x *flight) {
	if !slices.ContainsFunc(j.players, func(p *player) bool { return p.learner != nil && p.needs.Candidates }) {
		x.candidates, x.order = nil, nil
	}
}

func (j *judge) end(slot int32) {
	delete(j.slots, j.flights[slot].row)
	x := &j.flights[slot]
	*x = flight{candidates: x.candidates[:0], order: x.order[:0]}
	j.free = append(j.free, slot)
}

// decided lets each target decide, and evaluates it if the row counts.
func (j *judge) decided(e *joinedlog.Event) error {
	slot := j.slot()
	out := &j.log.Outcomes[e.Row]
	x := &j.flights[slot]
	*x = flight{row: e.Row, selected: -1, began: e.Began, candidates: append(x.candidates[:0], e.Items...), order: append(x.order[:0], e.Order...)}
	for _, i := range e.Items {
		j.items = max(j.items, i+1)
	}
	j.slots[e.Row] = slot
	if err := j.read(e); err != nil {
		return err
	}
	logged := j.windows.logged(&e.Decision)
	if out.Selected >= 0 {
		x.p = logged[out.Selected]
	}
	counts := !j.windows.early(&e.Decision, j.log.First) && j.counts(out, x.p)
	if counts {
		j.row.selected, j.row.p, j.row.logged = int(out.Selected), x.p, logged
		j.model.predict(&j.row, e.Items)
		j.perImpression(out)
		if j.row.selected >= 0 {
			j.depth = j.windows.depth(e.Order, out.Selected)
			j.looking.add(e.Items[out.Selected], len(e.Items)-1-int(out.Selected), j.row.payoff, j.depth)
		}
	}
	for _, p := range j.players {
		if p.own() {
			switch {
			case !counts:
			case j.per != nil:
				j.per.add(p.per, e, j, e.Order, logged)
			default:
				p.est.own(j.row.payoff)
			}
			continue
		}
		p.advance(e.At, j.items)
		if err := p.decide(j.log, e, &j.impression, slot); err != nil {
			return fmt.Errorf("target %q: %w", p.name, err)
		}
		if len(p.decision.Order) == 0 {
			continue
		}
		p.rule(&j.impression)
		if j.opt.Decided != nil {
			j.opt.Decided(p.name, e.Row, p.decision.Order)
		}
		p.pi = j.windows.of(p.pi, p.decision.Order, p.decision.Propensities)
		if !counts {
			continue
		}
		if p.depths.rows++; j.row.selected >= 0 {
			p.depths.add(p.pi[j.row.selected]/j.row.p, j.depth)
		}
		if j.per != nil {
			j.per.add(p.per, e, j, p.decision.Order, p.pi)
		} else {
			p.est.add(&j.row, p.pi)
		}
	}
	if counts {
		j.took(e, out, x.p)
		if j.opt.Look != nil && j.judged%j.opt.Every == 0 {
			j.opt.Look(j.judged, j.targets())
		}
	}
	if out.How == joinedlog.Replaced { // no feedback follows
		j.end(slot)
	}
	return nil
}

// perImpression prepares the present row for values per impression: it may have no selection.
func (j *judge) perImpression(out *joinedlog.Outcome) {
	if j.per == nil {
		return
	}
	j.worth = j.worth[:0]
	for _, x := range j.row.model {
		j.worth = append(j.worth, j.raw(x))
	}
	if out.How == joinedlog.Unselected {
		j.row.selected = -1
	}
}

// earn adds the present row's payoff to paid, normalised: of raw ones far from 0, squares hide the variance. A
// row without a selection earned 0, raw.
func (j *judge) earn() {
	x, r := j.row.payoff, j.learner.PayoffRange
	if j.row.selected < 0 {
		x = -r.Min / (r.Max - r.Min)
	}
	j.paid.add(x)
}

func (j *judge) took(e *joinedlog.Event, out *joinedlog.Outcome, p float64) {
	j.judged++
	j.earn()
	if j.row.selected < 0 {
		return
	}
	j.again = j.windows.of(j.again, e.Order, e.Propensities)
	j.off = max(j.off, math.Abs(j.again[out.Selected]/p-1))
	j.model.paid(e.Items[out.Selected], j.row.payoff)
}

// read decodes the impression for contexts. If it is unknown, all features are missing.
func (j *judge) read(e *joinedlog.Event) error {
	if len(e.About) == 0 {
		j.impression = event.Impression{Candidates: slices.Grow(j.impression.Candidates[:0], len(e.Items))[:len(e.Items)]}
		clear(j.impression.Candidates)
		return nil
	}
	if err := j.decoder.ImpressionIn(&j.impression, nil, event.Content{Form: event.Protobuf, Value: e.About}); err != nil {
		return fmt.Errorf("row %d: %w", e.Row, err)
	}
	return nil
}

// counts returns whether a row is evaluated, and sets its payoff.
func (j *judge) counts(out *joinedlog.Outcome, p float64) bool {
	switch {
	case out.How == joinedlog.Paid:
		j.row.payoff = j.normalised(out.Payoff)
		if r := j.learner.PayoffRange; out.Payoff < r.Min || out.Payoff > r.Max {
			j.outside++
		}
	case out.How == joinedlog.Unpaid && out.Refused:
		j.outside++
		return false
	case out.How == joinedlog.Unpaid && j.unpaid == nil:
		j.unsaid++
		return false
	case out.How == joinedlog.Unpaid:
		j.row.payoff = *j.unpaid
	case out.How == joinedlog.Unselected:
		return j.per != nil
	default:
		return false
	}
	if p < leastProbability {
		j.missed++
		return false
	}
	return true
}

func (j *judge) slot() int32 {
	if n := len(j.free); n > 0 {
		s := j.free[n-1]
		j.free = j.free[:n-1]
		return s
	}
	j.flights = append(j.flights, flight{})
	return int32(len(j.flights) - 1)
}

func (j *judge) report() *Report {
	c := &j.log.Counts
	at := func(t int64) string { return time.UnixMilli(t).UTC().Format(time.RFC3339) }
	r := &Report{Per: j.opt.per(), Windows: &j.windows.WindowsReport, Check: CheckReport{j.off}, Notes: slices.Clone(j.log.Notes), Log: LogReport{Learner: j.log.Learner, Policy: j.log.Policy,
		From: at(j.log.First), To: at(j.log.Last), Records: int64(len(j.log.Outcomes)), Judged: j.judged, Immature: c.Immature,
		Unselected: c.Unselected, Unpaid: c.Unpaid}}
	if mean, _ := j.paid.mean(); j.paid.n > 0 {
		mean = j.raw(mean)
		r.Log.Logged = &mean
	}
	if u := j.learner.PayoffRange; j.outside > 0 {
		means := "counted as its nearer end; without --config, --payoff-range sets it"
		if j.learner.OutOfRange == config.Refuse && j.learner.Aggregate != config.Sum {
			means = "refused: their impressions are left out"
		}
		r.Notes = append(r.Notes, fmt.Sprintf("%s outside [%v, %v] %s", plural.N(j.outside, "payoff"), u.Min, u.Max, means))
	}
	if n := j.windows.left; n > 0 {
		r.Notes = append(r.Notes, plural.N(n, "ranking")+" of the first minute left out: the learner may not have learned windows yet")
	}
	if c.Ruled > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%s under pins or caps: their probabilities are those of the ranking shown, and targets rank "+
			"under the same pins, and the caps of their configuration", plural.N(c.Ruled, "ranking")))
	}
	r.Targets = j.targets()
	if old := len(j.log.Outcomes) - int(c.Immature); j.judged > 0 && j.per == nil {
		p := &pace{horizon: j.learner.PayoffHorizon, each: time.Duration(j.log.Last-j.log.First) * time.Millisecond / time.Duration(len(j.log.Outcomes))}
		for k := range r.Targets {
			p.impressions = float64(old) / j.players[k].est.rows // a shadow has a share of the rows
			j.players[k].est.plan(&r.Targets[k], j.opt.Plan, j.learner.PayoffRange, p)
		}
	}
	return r
}

func (j *judge) targets() (all []TargetReport) {
	refused := j.refused()
	for _, p := range j.players {
		var t TargetReport
		if j.per != nil {
			t = reportImpressions(p.name, p.per, j.learner.PayoffRange, refused, j.paid.largest())
		} else {
			t = p.est.report(p.name, j.learner.PayoffRange, refused, j.paid.largest())
		}
		j.checkDepth(p, &t)
		all = append(all, t)
	}
	return all
}

// refused returns the reasons why the log cannot answer for any target.
func (j *judge) refused() (reasons []string) {
	w := &j.windows
	refuse := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	if w.Source != configured && w.Selections < fewForWindows {
		refuse("attention windows cannot be estimated from %s: at least %d are needed", plural.N(w.Selections, "selection"), fewForWindows)
	}
	if j.per != nil {
		reasons = append(reasons, j.per.refused()...)
	}
	if w.Noise > mostNoise {
		refuse("%.0f %% of users take anything they look at: they do not select by the utilities", 100*w.Noise)
	}
	if float64(j.missed) > mostImpossible*float64(j.judged+j.missed) {
		impossible := "with a recorded propensity of 0"
		if w.Source == configured {
			impossible = "outside the configured windows"
		}
		refuse("%s %s, which no user can make", plural.N(j.missed, "selection"), impossible)
	}
	if float64(j.unsaid) > mostUnpaidUnsaid*float64(j.judged+j.unsaid) {
		refuse("%s never paid, without a known payoff; set --unpaid", plural.N(j.unsaid, "selection"))
	}
	return reasons
}
