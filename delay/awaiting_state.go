package delay

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

// SilenceAges stores start times behind each item's count in hash "flights", and hashes of its own. Field values are decimal
// numbers with blanks between; sums are in units of 2⁻³⁰.
//   - Hash "settled" maps "<item>" to the numbers of paid and of expired selections; if some were paid below the default, also
//     the number and the sum of these payoffs.
//   - Hash "ages" maps a bucket, "<level>:<index>", to its delays (inflight.Ages), and "below:<level>:<index>" to those of payoffs
//     below the default. "pass" is the partition's tick, "newest" the end of its newest payoff's tick, and "since" the start of its
//     earliest bucket. Behind it the horizon follows, and that of earlier selections with the time before which they began; or zeros.
//   - Field "silence" of hash "learner" is the last estimate: tick, time up to which payoffs have been read, share paid,
//     values, delay distribution. Values are the mean payoff not below the default, and the credibilities of one payoff and of the
//     mean number. Field "below", if there are payoffs below the default, is their share, mean and delay distribution.
//
// With partial payoffs there is no "settled", "ages" counts amounts, and "below" is the share of returns, 0, and their delays.
var hashAges = named("ages")

const (
	fieldSilence = "silence"
	fieldBelow   = "below"
)

var (
	fieldTick   = []byte("pass")
	fieldNewest = []byte("newest")
	fieldSince  = []byte("since")
	prefixBelow = []byte("below:")
	errEstimate = errors.New("the value is not an estimate")
)

// about implements storedHash, for the delays.
func (a *awaiting) about() hashInfo { return hashInfo{Pooled{Hash: hashAges}, true} }

// harvest implements storedHash. It records the estimate, too.
func (a *awaiting) harvest(r Recorder, to *writer) {
	a.harvestAges(r, to)
	if a.newer {
		a.newer = false
		to.value = strconv.AppendInt(to.value[:0], a.newest, 10)
		r.Field(hashAges, fieldNewest, to.value)
	}
	if !a.unwritten {
		return
	}
	a.unwritten = false
	e := a.now()
	if early := a.ages[sideAbove].Early; a.since < -inflight.Never || early.Horizon > 0 {
		to.value = words.Append(to.value[:0], ' ', a.since, a.grid.Horizon(), early.Horizon, early.Before)
		r.Field(hashAges, fieldSince, to.value)
	}
	to.value = strconv.AppendInt(to.value[:0], a.tick, 10)
	r.Field(hashAges, fieldTick, to.value)
	to.value = e.appendTo(to.value[:0], a.tick, a.evidenceUntil())
	r.Field(HashLearner, []byte(fieldSilence), to.value)
	if e.below > 0 {
		to.value = e.appendBelow(to.value[:0])
		r.Field(HashLearner, []byte(fieldBelow), to.value[1:])
	} else if a.wroteBelow {
		r.Field(HashLearner, []byte(fieldBelow), nil)
	}
	a.wroteBelow = e.below > 0
}

// appendTo appends field "silence".
func (e *estimated) appendTo(dst []byte, tick, until int64) []byte {
	return words.AppendFloats(words.Append(dst, ' ', tick, until), ' ', append([]float64{e.share, e.high, e.own, e.spread}, e.late[sideAbove].Shares()...)...)
}

// appendBelow appends field "below", behind a blank.
func (e *estimated) appendBelow(dst []byte) []byte {
	return words.AppendFloats(dst, ' ', append([]float64{e.below, e.low}, e.late[sideBelow].Shares()...)...)
}

// appendEstimate appends the last estimate as harvest writes it: field "silence", and after a newline field "below" if there is one.
func (a *awaiting) appendEstimate(dst []byte) []byte {
	e := &a.made
	dst = e.appendTo(dst, a.tick, e.until)
	if e.below > 0 {
		dst = e.appendBelow(append(dst, '\n'))
	}
	return dst
}

// takeEstimate replaces the last estimate by one that appendEstimate wrote. It fails if the text is malformed.
func (a *awaiting) takeEstimate(text []byte) error {
	above, below, _ := bytes.Cut(text, []byte{'\n'})
	a.made.below, a.made.low, a.made.late[sideBelow] = 0, 0, inflight.DelayDistribution{}
	if err := a.loadEstimate(above); err != nil {
		return err
	}
	if len(below) > 0 {
		if err := a.loadBelow(below[1:]); err != nil {
			return err
		}
	}
	a.made.number++
	a.updateShares()
	return nil
}

func (a *awaiting) harvestAges(r Recorder, to *writer) {
	for side, prefix := range [][]byte{sideAbove: nil, sideBelow: prefixBelow} {
		for _, row := range slices.SortedFunc(maps.Keys(a.rows[side]), inflight.Bucket.Compare) {
			to.field = inflight.AppendBucket(append(to.field[:0], prefix...), row)
			if to.value = a.ages[side].AppendRow(to.value[:0], row); len(to.value) == 0 {
				r.Field(hashAges, to.field, nil)
				continue
			}
			r.Field(hashAges, to.field, to.value)
		}
		clear(a.rows[side])
	}
}

func (a *awaiting) load(field, value []byte, _ int) error {
	return a.setAges(&a.ages, &a.tick, &a.newest, &a.since, field, value)
}

// setAges sets a field of hash "ages".
func (a *awaiting) setAges(ages *sides, tick, newest, since *int64, field, value []byte) error {
	to := tick
	if bytes.Equal(field, fieldNewest) {
		to = newest
	}
	if to == newest || bytes.Equal(field, fieldTick) {
		n, err := parseTime(value)
		if err == nil {
			*to = n
		}
		return err
	}
	if bytes.Equal(field, fieldSince) {
		return ages.setSince(a.grid.Horizon(), since, value)
	}
	side := sideAbove
	name, low := bytes.CutPrefix(field, prefixBelow)
	if low {
		side = sideBelow
	}
	row, err := inflight.ParseBucket(name)
	if err != nil {
		return err
	}
	return ages[side].SetRow(&a.grid, row, value)
}

// setSince reads field "since". If the horizon is longer now, all selections so far are early ones.
func (s *sides) setSince(horizon int64, since *int64, value []byte) error {
	var n [4]int64
	r := words.Of(value, ' ')
	r.Ints(n[:], inflight.Never, -inflight.Never)
	if err := r.End(errTime); err != nil {
		return err
	}
	*since = n[0]
	early := inflight.Early{Horizon: n[2], Before: n[3]}
	if n[1] < horizon {
		early = early.Add(inflight.Early{Horizon: n[1], Before: -inflight.Never})
	}
	s[sideAbove].Early, s[sideBelow].Early = early, early
	return nil
}

// loadEstimate restores the estimate. One for another horizon is ignored: the next tick makes a new one.
func (a *awaiting) loadEstimate(value []byte) error {
	r := words.Of(value, ' ')
	r.Word() // the tick, which is in hash "ages", too
	until, share := readTime(&r), r.Float(0, 1)
	high, own, spread := r.Float(0, 1), r.Float(0, 1), r.Float(0, 1)
	late := inflight.NewDelayDistribution(r.Floats(0, 1))
	if err := r.End(errEstimate); err != nil {
		return err
	}
	if late.Check(&a.grid) {
		a.made.until, a.made.share, a.made.late[sideAbove] = until, share, late
		a.made.values.set(high, own, spread)
	}
	return nil
}

// loadBelow restores the estimate for payoffs below the default, under the same condition.
func (a *awaiting) loadBelow(value []byte) error {
	r := words.Of(value, ' ')
	below, low := r.Float(0, 1), r.Float(0, 1)
	r.Check(r.Left())
	late := inflight.NewDelayDistribution(r.Floats(0, 1))
	if err := r.End(errEstimate); err != nil {
		return err
	}
	if a.wroteBelow = true; late.Check(&a.grid) {
		a.made.below, a.made.low, a.made.late[sideBelow] = below, low, late
	}
	return nil
}

// loaded ends loading. After a change of the horizon buckets are merged, since later ones would overlap them.
func (a *awaiting) loaded() {
	a.mergeBuckets()
	for side := range a.ages {
		if before := &a.ages[side].Early.Before; *before == -inflight.Never {
			*before = a.tick + a.grid.TickLength() // those of the present tick may be early
		}
	}
	every := map[inflight.Bucket]inflight.Interval{}
	for _, own := range a.column.EachOwn() {
		addIntervals(every, own.Spans, 1)
	}
	a.every = inflight.IntervalsOf(every)
	a.updateShares()
	a.eachAwaited(a.reweigh)
}

// setSource implements storedHash. A malformed value is ignored.
func (a *awaiting) setSource(source int32, field, value []byte, _ Translate) {
	s := a.coming[source]
	if s == nil {
		s = a.theirs[source]
	}
	if s == nil {
		s = newSourceAges()
		a.theirs[source] = s
	}
	isTick := bytes.Equal(field, fieldTick)
	if isTick && value == nil {
		s.tickRead = false
	} else if a.setAges(&s.ages, &s.tick, &s.newest, new(int64), field, value) == nil && isTick {
		s.tickRead = true
	}
}

func (a *awaiting) beginResync(source int32) { a.coming[source] = newSourceAges() }

// endResync implements storedHash. The delays read since BeginResync replace the previous ones.
func (a *awaiting) endResync(source int32, _ func(policy.Item) bool) {
	if coming := a.coming[source]; coming != nil {
		a.theirs[source] = coming
		delete(a.coming, source)
	}
}

func (a *awaiting) merge(other storedHash, _ []policy.Item, additive bool) error {
	if !additive {
		return nil
	}
	from := other.(*awaiting)
	for side := range a.ages {
		a.ages[side] = a.ages[side].Plus(&a.grid, from.ages[side])
		a.ages[side].Each(func(row inflight.Bucket) { a.rows[side][row] = struct{}{} })
	}
	a.tick, a.unwritten = max(a.tick, from.tick), true
	a.since = min(a.since, from.since)
	for _, i := range a.mergeBuckets() { // carried selections are in buckets of a tick before this one
		a.column.Changes().Note(i, 1)
	}
	a.newest, a.newer = max(a.newest, from.newest), a.newer || from.newest != inflight.Never
	return nil
}
