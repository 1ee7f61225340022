package recency

import (
	"bytes"
	"errors"
	"math"
	"strconv"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
)

// ErrText is returned for text that Append cannot have written.
var ErrText = errors.New("recency: not an estimate")

// Append writes the estimate with blanks between: tick, payoffs of the spread, mean, σ, τ, slope, and the newest level's half-life
// in milliseconds, 0 for infinite. By bucket "level:index:" and the level in history.Units follow.
func (e *Estimate) Append(dst []byte) []byte {
	dst = strconv.AppendInt(dst, e.tick, 10)
	dst = strconv.AppendInt(append(dst, ' '), e.spreadAt, 10)
	for _, x := range [...]float64{e.spread.Mean, e.spread.Sigma, e.spread.Tau, e.slope} {
		dst = strconv.AppendFloat(append(dst, ' '), x, 'g', -1, 64)
	}
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
	headWords = 7
	// mostOfSpread bounds parsed components, far beyond use.
	mostOfSpread = 1e12
	mostLevel    = 1 << 50 // history.Units
)

// Load reads an estimate that Append wrote, also with other half-lives: one that is gone counts as infinite. It fails with ErrText.
func (e *Estimate) Load(text []byte) error {
	words := bytes.SplitN(text, []byte{' '}, headWords+1)
	if len(words) != headWords+1 {
		return ErrText
	}
	tick, errTick := strconv.ParseInt(string(words[0]), 10, 64)
	at, errAt := strconv.ParseInt(string(words[1]), 10, 64)
	life, errLife := strconv.ParseInt(string(words[6]), 10, 64)
	spread, slope, ok := parseSpread(words[2:6])
	rows, err := history.Parse(words[7], levelFrom)
	if errors.Join(errTick, errAt, errLife, err) != nil || !ok || tick < inflight.Never || tick > -inflight.Never || at < 0 {
		return ErrText
	}
	e.tick, e.spreadAt, e.spread, e.slope = tick, at, spread, slope
	e.levels.now = len(e.halves.lives)
	for k, x := range e.halves.lives {
		if x == life {
			e.levels.now = k
		}
	}
	e.levels.of = e.levels.of[:0]
	for _, r := range rows {
		e.levels.of = append(e.levels.of, common{Bucket: r.Bucket, level: float64(r.Sum) / history.Units, stamp: e.halves.stampOfBlock(r.Bucket)})
	}
	return nil
}

// parseSpread reads the components and the slope.
func parseSpread(words [][]byte) (c policy.Components, slope float64, ok bool) {
	for k, to := range []*float64{&c.Mean, &c.Sigma, &c.Tau, &slope} {
		x, err := strconv.ParseFloat(string(words[k]), 64)
		if *to = x; err != nil || k < 2 && !(math.Abs(x) <= mostOfSpread) {
			return c, slope, false
		}
	}
	return c, slope, c.Sigma > 1/mostOfSpread && c.Tau > 1/mostOfSpread && slope >= 0 && slope <= 1
}

type storedLevel int64

func (l storedLevel) Add(o storedLevel) storedLevel   { return l + o }
func (l storedLevel) Minus(o storedLevel) storedLevel { return l - o }
func (l storedLevel) Bounded() storedLevel            { return l }
func (l storedLevel) Append(dst []byte) []byte        { return history.AppendNumbers(dst, int64(l)) }

func levelFrom(numbers []int64) (l storedLevel, ok bool) {
	if len(numbers) != 1 {
		return 0, false
	}
	return storedLevel(numbers[0]), numbers[0] <= mostLevel && numbers[0] >= -mostLevel
}
