package delay

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/delay/recency"
)

// The hashes of Robust, besides those of Direct. Hash "lately" maps "<item>" to its ended selections by start time, in buckets as
// of the tick of the last end (recency.Rows). Hash "levels" maps a bucket level "<level>" to the residuals in its buckets
// (recency.Residual), as of the tick in field "pass". Field "levels" of hash "learner" is the last estimate (recency.Estimate).
const (
	hashLately = "lately"
	hashLevels = "levels"
)

var fieldLevels = []byte("levels")

func (r *Robust) Hashes() []string {
	all := append([]string{hashFlights, hashWindows, hashLearner, hashLately, hashLevels}, r.flights.hashes()...)
	if r.attraction != nil {
		all = append(all, hashAttraction)
	}
	return all
}

// Pooled implements Learner. Payoffs of all partitions inform items and levels.
func (r *Robust) Pooled() []Pooled {
	return append(r.base.Pooled(), Pooled{Hash: hashLately, ByItem: true}, Pooled{Hash: hashLevels})
}

func (r *Robust) Harvest(to Recorder) {
	for i, what := range r.changes.All() {
		if what&recentChanged != 0 {
			r.field = strconv.AppendInt(r.field[:0], int64(i), 10)
			if len(r.items.own.Get(i).Rows) == 0 { // it was forgotten
				to.Field(hashLately, r.field, nil)
				continue
			}
			r.value = r.items.own.Get(i).Append(r.value[:0])
			to.Field(hashLately, r.field, r.value)
		}
	}
	for _, i := range r.forgotten {
		r.items.own.Remove(i)
		r.items.others.Release(i)
		r.items.read.Remove(i)
	}
	r.harvest(to)
	r.levels.harvest(to, &r.writer)
	if r.moved {
		r.moved = false
		r.value = strconv.AppendInt(r.value[:0], r.pass, 10)
		to.Field(hashLevels, fieldPass, r.value)
	}
	if r.unstored {
		r.unstored = false
		r.value = r.estimate.Append(r.value[:0])
		to.Field(hashLearner, fieldLevels, r.value)
	}
}

func (l *recentLevels) harvest(r Recorder, to *writer) {
	for level := range l.changes.All() {
		to.field, to.value = strconv.AppendInt(to.field[:0], int64(level), 10), to.value[:0]
		for _, x := range l.own {
			if int32(x.Level) == level {
				if len(to.value) > 0 {
					to.value = append(to.value, ' ')
				}
				to.value = x.Append(to.value)
			}
		}
		if len(to.value) == 0 {
			r.Field(hashLevels, to.field, nil)
			continue
		}
		r.Field(hashLevels, to.field, to.value)
	}
	l.changes.Clear()
}

func (r *Robust) LoadField(hash string, field, value []byte) error {
	return faulty(r.loadField(hash, field, value), hash, field, value)
}

func (r *Robust) loadField(hash string, field, value []byte) (err error) {
	switch {
	case hash == hashLately:
		i, err := parseItem(field, r.items.others.Len())
		if err != nil {
			return err
		}
		r.items.own.At(i).Rows, err = recency.ParseSelections(value)
		return err
	case hash == hashLevels && bytes.Equal(field, fieldPass):
		r.pass, err = parsePass(value)
		return err
	case hash == hashLevels:
		rows, _, err := parseLevel(field, value)
		r.levels.own = append(r.levels.own, rows...)
		return err
	case hash == hashLearner && bytes.Equal(field, fieldLevels):
		return r.estimate.Load(value)
	}
	return r.base.loadField(hash, field, value)
}

// parseLevel reads the rows of one level of buckets; the level is −1 if its number is malformed.
func parseLevel(field, value []byte) (rows history.Rows[recency.Residual], level int32, err error) {
	if level, err = parseInt32(field); err != nil || level >= blockLevels {
		return nil, -1, fmt.Errorf("the level is %w, or too high", errNumber)
	}
	if rows, err = recency.ParseResiduals(value); err != nil {
		return nil, level, err
	}
	for _, x := range rows {
		if int32(x.Level) != level {
			return nil, level, fmt.Errorf("a block of level %d", x.Level)
		}
	}
	return rows, level, nil
}

// Loaded implements Learner. It fails where buckets overlap.
func (r *Robust) Loaded() error {
	own := r.levels.own
	slices.SortFunc(own, func(a, b history.Row[recency.Residual]) int { return a.Compare(b.Bucket) })
	for k := range own {
		if k > 0 && own[k-1].End() > own[k].Start() {
			return fmt.Errorf("%w: hash %q has blocks %v and %v, which overlap", ErrState, hashLevels, own[k-1].Bucket, own[k].Bucket)
		}
	}
	r.windows.settle()
	r.flights.loaded(r.table)
	return nil
}

func (r *Robust) SetSourceField(source int32, hash string, field, value []byte, items Translate) {
	switch {
	case hash == hashLately:
		i, known := theirItem(field, items)
		if !known {
			return
		}
		if rows, err := recency.ParseSelections(value); err == nil {
			r.items.others.SetSource(source, i, rows)
		} else {
			r.items.others.Drop(source, i)
		}
	case hash == hashLevels && bytes.Equal(field, fieldPass):
		r.setPass(source, value)
	case hash == hashLevels:
		r.levels.setSource(source, field, value)
	default:
		r.base.SetSourceField(source, hash, field, value, items)
	}
}

// setPass sets another source's tick; a malformed one counts as absent.
func (r *Robust) setPass(source int32, value []byte) {
	if pass, err := parsePass(value); err == nil {
		r.passes[source] = pass
	} else {
		delete(r.passes, source)
	}
	r.latest = inflight.Never
	for _, pass := range r.passes {
		r.latest = max(r.latest, pass)
	}
}

// setSource stages another source's rows of a level until the next use; an absent or malformed value removes them.
func (l *recentLevels) setSource(source int32, field, value []byte) {
	if rows, level, err := parseLevel(field, value); level >= 0 {
		if err != nil {
			rows = nil
		}
		l.others.Stage(source, level, rows)
	}
}
