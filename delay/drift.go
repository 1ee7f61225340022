package delay

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

// hashHistory maps "<item>" to its payoffs by start time of their selections (history.Rows). Field "pass" holds the tick up to
// which weights have decayed, and the first tick of the history: sums from before count as of that one.
var hashHistory = named("history")

// drift computes evidence where means drift: a payoff weighs less the longer ago its selection began (history.Decay). The age is
// that of the impression, not of the payoff. Defaults come last, and would otherwise outweigh the payoffs of the same selections.
type drift struct {
	column[history.Rows[history.Payoffs]]
	silence Silence
	grid    inflight.Scheme
	rate    float64 // variance of a mean's random walk per millisecond, in variances of a payoff
	tick    int64   // the tick up to which weights have decayed; inflight.Never before the first
	since   int64   // the first tick
	moved   bool    // tick or since has changed since the last harvest

	theirs map[int32][2]int64 // by source: its tick and since
	coming map[int32]bool     // sources that sent theirs in the resync that goes on
	global *drift             // the global learner's, or nil; see share
}

// newDrift returns one for means whose random walk moves Silence.Drift deviations of a payoff in a day.
func newDrift(s Silence, table *policy.Table) *drift {
	const day = 86_400_000
	totals := policy.NewTotals(func(i policy.Item, _, _ history.Rows[history.Payoffs]) { table.Weigh(i) })
	totals.ReplaceBy(history.Rows[history.Payoffs].Replace)
	return &drift{silence: s, grid: inflight.NewScheme(s.Horizon), rate: s.Drift * s.Drift / day, tick: inflight.Never, since: inflight.Never,
		theirs: map[int32][2]int64{}, coming: map[int32]bool{},
		column: newColumn(&totals, format[history.Rows[history.Payoffs]]{
			hash: hashHistory, pooled: true,
			append: func(dst []byte, rows history.Rows[history.Payoffs]) []byte { return rows.Append(dst) },
			read:   history.ReadRows,
			equal:  slices.Equal[history.Rows[history.Payoffs]],
		})}
}

// pay counts a payoff, or a default in its place.
func (d *drift) pay(fb *Feedback) {
	d.At(fb.Item).Count(&d.grid, fb.Began, d.tick, history.PayoffsOf(fb.Payoff))
	d.Changed(fb.Item, 1)
}

// advance moves event time on, and returns whether a new tick began.
func (d *drift) advance(watermark int64) bool {
	tick := d.grid.Tick(watermark)
	if tick <= d.tick {
		return false
	}
	d.tick, d.moved = tick, true
	if d.since == inflight.Never {
		d.since = tick
	}
	for i, rows := range d.EachOwn() {
		if rows.Merge(&d.grid, tick) {
			d.Changed(i, 1)
		}
	}
	return true
}

// evidence returns an item's decayed evidence. Selections in flight count as the default, and as low if paid below it.
func (d *drift) evidence(i policy.Item, sums policy.Sums, awaited []unpaid, low float64) policy.Evidence {
	rows := d.Pooled(i)
	tick, since := d.asOf()
	var f history.Decay
	paid := rows.Total()
	if before := sums.N - paid.N; before > 0 { // from before there was a history
		if len(rows) > 0 {
			since = min(since, rows[0].Middle())
		}
		f.To(min(since, tick), d.rate)
		f.Take(float64(before), sums.R-float64(paid.R)/history.Units, max(0, sums.Q-float64(paid.Q)/history.Units))
	}
	for len(rows) > 0 || len(awaited) > 0 {
		if len(awaited) == 0 || len(rows) > 0 && rows[0].Middle() <= awaited[0].at {
			f.To(min(rows[0].Middle(), tick), d.rate)
			f.Take(float64(rows[0].Sum.N), float64(rows[0].Sum.R)/history.Units, float64(rows[0].Sum.Q)/history.Units)
			rows = rows[1:]
			continue
		}
		e := d.silence.silent(policy.Evidence{}, inFlight{awaited[0].Worth, low})
		f.To(min(awaited[0].at, tick), d.rate)
		f.Take(e.W, e.R, e.Q)
		awaited = awaited[1:]
	}
	f.To(tick, d.rate)
	return policy.Evidence{W: f.W, R: f.R, Q: f.Q}
}

// asOf returns the tick up to which weights decay, and the start of the history: the global learner's, once it has them.
func (d *drift) asOf() (tick, since int64) {
	if d.global != nil && d.global.tick != inflight.Never {
		d = d.global
	}
	return d.tick, d.since
}

func (d *drift) harvest(r Recorder, to *writer) {
	d.column.harvest(r, to)
	if d.moved {
		d.moved = false
		to.value = words.Append(to.value[:0], ' ', d.tick, d.since)
		r.Field(hashHistory, fieldTick, to.value)
	}
}

func (d *drift) load(field, value []byte, items int) error {
	if bytes.Equal(field, fieldTick) {
		at, err := parseFaded(value)
		d.tick, d.since = at[0], at[1]
		return err
	}
	return d.column.load(field, value, items)
}

// parseFaded reads tick and since.
func parseFaded(value []byte) ([2]int64, error) {
	return words.Parse(value, ' ', func(r *words.Reader) [2]int64 { return [2]int64{readTime(r), readTime(r)} }, errTime)
}

// loaded ends loading. After a change of the horizon buckets are merged.
func (d *drift) loaded() {
	for i, rows := range d.EachOwn() {
		if rows.Merge(&d.grid, d.tick) {
			d.Set(i, *rows)
		}
	}
}

func (d *drift) setSource(source int32, field, value []byte, items Translate) {
	if bytes.Equal(field, fieldTick) {
		if at, err := parseFaded(value); err == nil {
			d.theirs[source], d.coming[source] = at, true
		} else {
			delete(d.theirs, source)
		}
		return
	}
	d.column.setSource(source, field, value, items)
}

func (d *drift) beginResync(source int32) { delete(d.coming, source) }

func (d *drift) endResync(source int32, read func(policy.Item) bool) {
	d.column.endResync(source, read)
	if !d.coming[source] {
		delete(d.theirs, source)
	}
}

func (d *drift) share(global statistic, source int32, number func(policy.Item) policy.Item) {
	d.column.share(global, source, number)
	d.global = global.(*drift)
}

func (d *drift) merge(other storedHash, numbers []policy.Item, additive bool) error {
	if !additive {
		return nil
	}
	from := other.(*drift)
	if from.since != inflight.Never && (d.since == inflight.Never || from.since < d.since) {
		d.since = from.since
	}
	d.tick, d.moved = max(d.tick, from.tick), true
	return d.column.merge(other, numbers, additive)
}

// readTicks reads the sources' ticks, and returns whether weights change. A source whose store went back has an earlier tick again.
func (d *drift) readTicks() bool {
	before, since := d.tick, d.since
	d.tick, d.since = inflight.Never, inflight.Never
	for _, s := range d.theirs {
		d.tick = max(d.tick, s[0])
		if d.since == inflight.Never || s[1] < d.since {
			d.since = s[1]
		}
	}
	return d.tick != before || d.since != since
}

// endedDrift deletes the history of a learner without drift that had it before. If drift is set once more, it begins then: payoffs fed
// in between would count as of its first beginning.
type endedDrift struct {
	*drift
	table *policy.Table
}

func (d endedDrift) harvest(r Recorder, to *writer) {
	if d.tick == inflight.Never {
		return
	}
	for i := range d.EachOwn() {
		to.field = strconv.AppendInt(to.field[:0], int64(i), 10)
		r.Field(hashHistory, to.field, nil)
	}
	r.Field(hashHistory, fieldTick, nil)
	*d.drift = *newDrift(d.silence, d.table)
}

func (endedDrift) setSource(int32, []byte, []byte, Translate)  {}
func (endedDrift) beginResync(int32)                           {}
func (endedDrift) endResync(int32, func(policy.Item) bool)     {}
func (endedDrift) merge(storedHash, []policy.Item, bool) error { return nil }
