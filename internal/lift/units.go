package lift

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/joinedlog"
	"github.com/ranker-worker/ranker-worker/internal/plural"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// Options configure a comparison.
type Options struct {
	Experiment *experiment.Experiment
	Payoffs    config.Range // the same for all arms
	Unpaid     float64      // payoff of a selection never paid, in raw units
	Horizon    event.Millis // of payoffs
	// Silence is that of the control, whose delays are learned.
	Silence delay.Silence
	// AsOf is the event time up to which deadlines count; 0: as far as the log goes.
	AsOf event.Millis
	// Once counts each group of users once, over all time, where users keep their arm. Bounds then hold for one look.
	Once bool
	// Shared is for shared learning: other runs of the log are compared, too.
	Shared bool
}

// Units are the experiment's impressions.
type Units struct {
	*Options
	all    []unit
	others map[int32]*otherRun
	// Rankings that are no rows:
	runs     map[int32]int64 // of other runs
	fallback []int64         // by arm: ranked by another one
	shares   int64           // assigned with another share, or to an unknown arm
	verdicts []*verdict      // by arm; nil without one
	payoffs  []payoff        // in the order of the log
	controlDelays
}

type unit struct {
	began     event.Millis
	deadline  event.Millis
	period    int64 // by user
	row       int32 // of the log
	partition int32
	group     int16 // likewise
	arm       int16
	covariate int32 // in units of 10⁻⁶
}

func (x *unit) z() float64 { return event.FromMillionths(int64(x.covariate)) }

type verdict struct {
	event.Verdict
	at event.Millis // time of the first ranking that records it
}

func NewUnits(o *Options) *Units {
	n := len(o.Experiment.Arms)
	return &Units{Options: o, controlDelays: newControlDelays(o.Silence), runs: map[int32]int64{}, others: map[int32]*otherRun{}, fallback: make([]int64, n), verdicts: make([]*verdict, n)}
}

// Again is for joinedlog.Query: it drops all units.
func (u *Units) Again() { *u = *NewUnits(u.Options) }

// Accept is for joinedlog.Query: it accepts a ranking of the experiment's run by its assigned arm, and one from which the control learns.
func (u *Units) Accept(row int32, r *event.Ranking) bool {
	unit := u.accept(row, r)
	return u.feeds(row, r) || unit
}

func (u *Units) accept(row int32, r *event.Ranking) bool {
	d := &r.Decision
	a, e := &d.Assignment, u.Experiment
	if a.Experiment != e.Name {
		return false
	}
	switch {
	case a.Run == e.Run:
	case u.Shared:
		return u.other(row, r)
	default:
		u.runs[a.Run]++
		return false
	}
	u.sentence(&d.Verdict, r.Time)
	arm := e.Index(a.Arm)
	x, known := u.unit(row, arm, r)
	if !known || arm < 0 || !same(a.Probability, e.Arms[arm].Share) {
		u.shares++
		return false
	}
	if a.Fallback {
		u.fallback[arm]++
		return false
	}
	u.all = append(u.all, x)
	return true
}

// unit returns a ranking's unit; false if the experiment has other units.
func (u *Units) unit(row int32, arm int, r *event.Ranking) (x unit, ok bool) {
	d := &r.Decision
	x = unit{began: d.Began, row: row, deadline: d.PayoffDeadline, partition: d.Partition, arm: int16(arm), covariate: d.Assignment.Covariate}
	if !u.Experiment.ByUser {
		return x, len(d.Assignment.Unit) == 0
	}
	group, period, periodic, ok := experiment.ParseUnit(string(d.Assignment.Unit))
	x.group, x.period = int16(group), period
	return x, ok && periodic == !u.Experiment.Never()
}

// sentence notes a guard's verdict, which each partition records once.
func (u *Units) sentence(v *event.Verdict, at event.Millis) {
	arm := u.Experiment.Index(v.Arm)
	if v.Arm == "" || arm < 0 || v.Run != u.Experiment.Run {
		return
	}
	if known := u.verdicts[arm]; known == nil || at < known.at {
		u.verdicts[arm] = &verdict{*v, at}
	}
}

// worth returns a row's payoff in [0,1]; false if it is no unit.
func (u *Units) worth(o *joinedlog.Outcome) (x float64, ok bool) {
	return u.worthOf(o.How, o.Payoff)
}

func (u *Units) worthOf(how joinedlog.How, raw float64) (x float64, ok bool) {
	switch how {
	case joinedlog.Paid:
	case joinedlog.Unpaid:
		raw = u.Unpaid
	case joinedlog.Unselected:
		raw = 0
	default:
		return 0, false
	}
	return u.normalise(raw), true
}

func (u *Units) normalise(raw float64) float64 {
	low, high := u.Payoffs.Min, u.Payoffs.Max
	return min(max((raw-low)/(high-low), 0), 1)
}

// look is the state after a cohort or period was added.
type look struct {
	at     event.Millis // up to when deadlines are counted
	totals experiment.Totals
}

// looks adds all units with deadlines before end, as partitions do, and returns the number of impressions too young.
func (u *Units) looks(outcomes []joinedlog.Outcome, end event.Millis) (looks []look, young int64) {
	switch {
	case !u.Experiment.ByUser:
		return u.byCohort(outcomes, end)
	case u.Experiment.Never():
		return u.once(outcomes, end)
	}
	return u.byPeriod(outcomes, end)
}

// byCohort adds cohorts of deadlines, by partition.
func (u *Units) byCohort(outcomes []joinedlog.Outcome, end event.Millis) (looks []look, young int64) {
	e := u.Experiment
	cohorts := map[int32]*experiment.Cohorts{}
	totals := map[int32]experiment.Totals{}
	width := experiment.Width(u.Horizon)
	for k := range u.all {
		x := &u.all[k]
		c := cohorts[x.partition]
		if c == nil {
			c = experiment.NewCohorts(len(e.Arms), width)
			cohorts[x.partition], totals[x.partition] = c, make(experiment.Totals, len(e.Arms))
		}
		n := c.Number(x.deadline)
		if c.Ends(n) > end {
			young++
			continue
		}
		if worth, ok := u.worth(&outcomes[x.row]); ok {
			c.Add(n, int(x.arm), experiment.Unit(1, x.z()).Add(experiment.Of(worth, x.z())))
		}
	}
	partitions := slices.Sorted(maps.Keys(cohorts))
	for {
		next := int64(math.MaxInt64)
		for _, c := range cohorts {
			if n, ok := c.First(); ok {
				next = min(next, n)
			}
		}
		if next == math.MaxInt64 {
			return looks, young
		}
		at := look{at: (next + 1) * width, totals: make(experiment.Totals, len(e.Arms))}
		for _, p := range partitions {
			if _, by, ok := cohorts[p].Close(at.at); ok {
				totals[p].Fold(by)
			}
			at.totals.Add(totals[p])
		}
		looks = append(looks, at)
	}
}

// byPeriod adds the groups of periods, over all partitions.
func (u *Units) byPeriod(outcomes []joinedlog.Outcome, end event.Millis) (looks []look, young int64) {
	e := u.Experiment
	// The last impression of a period begins just before the next.
	last := experiment.PeriodOf(end-u.Horizon, e.Period) - 1
	periods := map[int64]experiment.Groups{}
	for k := range u.all {
		x := &u.all[k]
		if x.period > last {
			young++
			continue
		}
		u.add(periods, x.period, x, &outcomes[x.row])
	}
	totals := make(experiment.Totals, len(e.Arms))
	for _, p := range slices.Sorted(maps.Keys(periods)) {
		e.Fold(totals, p, periods[p])
		looks = append(looks, look{(p+1)*e.Period + u.Horizon, slices.Clone(totals)})
	}
	return looks, young
}

func (u *Units) add(periods map[int64]experiment.Groups, period int64, x *unit, o *joinedlog.Outcome) {
	worth, ok := u.worth(o)
	if !ok {
		return
	}
	if periods[period] == nil {
		periods[period] = make(experiment.Groups, experiment.GroupCount)
	}
	periods[period].Add(int(x.group), experiment.Unit(1, x.z()).Add(experiment.Of(worth, x.z())))
}

// onceBlock is the number of groups added at a time, whose mean predicts later ones. A user's group is random.
const onceBlock = 32

// once adds each group once, over all time.
func (u *Units) once(outcomes []joinedlog.Outcome, end event.Millis) (looks []look, young int64) {
	e := u.Experiment
	periods := map[int64]experiment.Groups{}
	for k := range u.all {
		x := &u.all[k]
		if x.deadline >= end {
			young++
			continue
		}
		u.add(periods, 0, x, &outcomes[x.row])
	}
	groups := periods[0]
	if groups == nil {
		return nil, young
	}
	totals := make(experiment.Totals, len(e.Arms))
	for from := 0; from < experiment.GroupCount; from += onceBlock {
		block := make(experiment.Groups, experiment.GroupCount)
		copy(block[from:from+onceBlock], groups[from:from+onceBlock])
		e.Fold(totals, 0, block)
	}
	return []look{{end, totals}}, young
}

// notes describe the rankings that were left out.
func (u *Units) notes() (notes []string) {
	for _, run := range slices.Sorted(maps.Keys(u.runs)) {
		notes = append(notes, fmt.Sprintf("%s of run %d left out", plural.N(u.runs[run], "ranking"), run))
	}
	for arm, n := range u.fallback {
		if n > 0 {
			notes = append(notes, fmt.Sprintf("%d impressions of arm %s are left out, which another arm has ranked", n, u.Experiment.Arms[arm].Name))
		}
	}
	return notes
}
