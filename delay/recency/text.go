package recency

import (
	"errors"
	"math"
	"strconv"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

// ErrText is returned for text that Append cannot have written.
var ErrText = errors.New("recency: not an estimate")

// Append writes the estimate with blanks between: tick, payoffs of the spread, mean, σ, τ, slope, and the newest level's half-life
// in milliseconds, 0 for infinite. By bucket "level:index:" and the level in history.Units follow.
func (e *Estimate) Append(dst []byte) []byte {
	dst = words.Append(dst, ' ', e.tick, e.spreadAt)
	dst = words.AppendFloats(dst, ' ', e.spread.Mean, e.spread.Sigma, e.spread.Tau, e.slope)
	life := int64(0)
	if e.levels.now < len(e.halves.lives) {
		life = e.halves.lives[e.levels.now]
	}
	dst = strconv.AppendInt(append(dst, ' '), life, 10)
	for _, c := range e.levels.of {
		dst = inflight.AppendBucket(append(dst, ' '), c.Bucket)
		dst = history.AppendNumbers(dst, int64(c.level*history.Units))
	}
	return dst
}

const (
	// mostOfSpread bounds parsed components, far beyond use.
	mostOfSpread = 1e12
	mostLevel    = 1 << 50 // history.Units
)

// Load reads an estimate that Append wrote, also with other half-lives: one that is gone counts as infinite. It fails with ErrText.
func (e *Estimate) Load(text []byte) error {
	r := words.Of(text, ' ')
	tick, at := r.Int(inflight.Never, -inflight.Never), r.Int(0, math.MaxInt64)
	spread := policy.Components{Mean: r.Float(-mostOfSpread, mostOfSpread), Sigma: r.Float(0, mostOfSpread), Tau: r.Float(0, math.Inf(1))}
	r.Check(spread.Sigma > 1/mostOfSpread && spread.Tau > 1/mostOfSpread)
	slope, life := r.Float(0, 1), r.Int(math.MinInt64, math.MaxInt64)
	rows := history.Read(&r, func(r *words.Reader) int64 { return r.Int(-mostLevel, mostLevel) })
	if err := r.End(ErrText); err != nil {
		return err
	}
	e.tick, e.spreadAt, e.spread, e.slope = tick, at, spread, slope
	e.levels.now = len(e.halves.lives)
	for k, x := range e.halves.lives {
		if x == life {
			e.levels.now = k
		}
	}
	e.levels.of = e.levels.of[:0]
	for _, x := range rows {
		e.levels.of = append(e.levels.of, common{Bucket: x.Bucket, level: float64(x.Sum) / history.Units, stamp: e.halves.stampOfBlock(x.Bucket)})
	}
	return nil
}
