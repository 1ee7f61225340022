package delay

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/delay/recency"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

func (r *Robust) Harvest(to Recorder) {
	r.unstored = r.unstored || r.global != nil && r.levels.moved && r.now().Tick() != inflight.Never
	r.base.Harvest(to)
	if r.unstored {
		r.unstored = false
		r.value = r.now().Append(r.value[:0])
		to.Field(HashLearner, []byte(fieldLevels), r.value)
	}
}

// about implements storedHash. Residuals of all partitions inform levels.
func (l *recentLevels) about() hashInfo { return hashInfo{Pooled{Hash: hashLevels}, true} }

func (l *recentLevels) harvest(r Recorder, to *writer) {
	for level := range l.changes.All() {
		to.field, to.value = strconv.AppendInt(to.field[:0], int64(level), 10), to.value[:0]
		for _, x := range l.own {
			if int32(x.Level) == level {
				if len(to.value) > 0 {
					to.value = append(to.value, ' ')
				}
				to.value = history.AppendRow(to.value, &x)
			}
		}
		if len(to.value) == 0 {
			r.Field(hashLevels, to.field, nil)
			continue
		}
		r.Field(hashLevels, to.field, to.value)
	}
	l.changes.Clear()
	if l.moved {
		l.moved = false
		to.value = strconv.AppendInt(to.value[:0], l.tick, 10)
		r.Field(hashLevels, fieldTick, to.value)
	}
}

func (l *recentLevels) load(field, value []byte, _ int) (err error) {
	if bytes.Equal(field, fieldTick) {
		l.tick, err = parseTime(value)
		return err
	}
	rows, _, err := parseLevel(field, value)
	l.own = append(l.own, rows...)
	return err
}

func (l *recentLevels) beginResync(source int32) { l.resyncs.Begin(source) }

func (l *recentLevels) endResync(source int32, _ func(policy.Item) bool) {
	read := l.resyncs.End(source)
	for level := range l.others.Of(source) {
		if !read[level] {
			l.others.Drop(source, level)
		}
	}
	if !read[readTick] {
		l.setTick(source, nil)
	}
}

// merge implements storedHash. Levels are estimated again at the next payoff.
func (l *recentLevels) merge(other storedHash, _ []policy.Item, additive bool) error {
	if !additive {
		return nil
	}
	from := other.(*recentLevels)
	for _, rows := range []history.Rows[recency.Residual]{l.own, from.own} { // buckets may change in both
		for _, x := range rows {
			l.changes.Note(int32(x.Level), 1)
		}
	}
	l.own = slices.Clone(l.own.Add(from.own))
	l.tick, l.moved = max(l.tick, from.tick), true
	l.mergeTo(l.tick) // the giver may be behind, too
	return nil
}

var errLevel = errors.New("the field is no level of buckets, or the value has no residuals in these")

// parseLevel reads the rows of one level of buckets; the level is −1 if its number is malformed.
func parseLevel(field, value []byte) (rows history.Rows[recency.Residual], level int32, err error) {
	level, err = parseItem(field, blockLevels)
	if err != nil {
		return nil, -1, errLevel
	}
	rows, err = words.Parse(value, ' ', recency.ReadResiduals, errLevel)
	if slices.ContainsFunc(rows, func(x history.Row[recency.Residual]) bool { return int32(x.Level) != level }) {
		err = errLevel
	}
	return rows, level, err
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
	r.flights.loaded()
	r.tablesLoaded()
	return nil
}

// setSource implements storedHash.
func (l *recentLevels) setSource(source int32, field, value []byte, _ Translate) {
	if bytes.Equal(field, fieldTick) {
		l.resyncs.Note(source, readTick)
		l.setTick(source, value)
		return
	}
	if rows, level, err := parseLevel(field, value); level >= 0 {
		if err != nil {
			rows = nil
		}
		l.resyncs.Note(source, level)
		l.others.SetSource(source, level, rows)
	}
}

// readPass stands for field "pass" among the levels read in a resync.
const readTick = -1

// setTick sets another source's tick; a malformed one counts as absent.
func (l *recentLevels) setTick(source int32, value []byte) {
	if tick, err := parseTime(value); err == nil {
		l.ticks[source] = tick
	} else {
		delete(l.ticks, source)
	}
	l.latest = inflight.Never
	for _, tick := range l.ticks {
		l.latest = max(l.latest, tick)
	}
}
