package delay

import (
	"bytes"
	"iter"

	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
)

func (r *Robust) Share(global Learner, source int32, number func(policy.Item) policy.Item) {
	r.global, r.number = global.(*Robust), number
	r.base.Share(global, source, number)
}

// Refresh implements Pooling. Cached readings are dropped.
func (r *Robust) Refresh(arrived iter.Seq[policy.Item]) {
	r.base.Refresh(arrived)
	r.estimated()
}

// Unstored implements Pooling. The global estimate is stored at each tick of our own payoffs.
func (r *Robust) Unstored() bool { return r.levels.moved || r.base.Unstored() }

func (r *Robust) BeGlobal(mark func(policy.Item) uint64) {
	r.mark = mark
	r.base.BeGlobal(mark)
}

func (r *Robust) Commit(items int) (due Estimates) {
	due = r.base.Commit(items)
	tick := r.levels.latest
	if tick != inflight.Never && (tick != r.estimate.Tick() || due&OfSilence != 0) {
		due |= OfLevels
		if r.estimate.SpreadDue(r.table.Fed(), r.table.Len()) {
			due |= OfSpread
		}
	}
	return due
}

func (r *Robust) Estimate(which Estimates) (made Estimates) {
	if which&OfSpread != 0 {
		which |= OfLevels
	}
	if which&OfLevels != 0 {
		which |= OfSilence
	}
	which &= r.Makes()
	r.base.Estimate(which)
	if which&OfLevels == 0 {
		return which
	}
	r.made++
	if data := r.data(r.levels.latest); which&OfSpread != 0 {
		r.estimate.MakeAll(data)
	} else {
		r.estimate.MakeLevels(data)
	}
	return which
}

func (r *Robust) Makes() (all Estimates) {
	return r.base.Makes() | OfLevels | OfSpread
}

// prefixLevels begins the first line of an estimate (AppendEstimate), with levels.
var prefixLevels = []byte("levels ")

func (r *Robust) AppendEstimate(dst []byte) []byte {
	if r.made > 0 {
		dst = append(r.estimate.Append(append(dst, prefixLevels...)), '\n')
	}
	return r.base.AppendEstimate(dst)
}

func (r *Robust) TakeEstimate(text []byte) (taken Estimates, err error) {
	if levels, found := bytes.CutPrefix(text, prefixLevels); found {
		levels, text, _ = bytes.Cut(levels, []byte{'\n'})
		if err := r.estimate.Load(levels); err != nil {
			return 0, err
		}
		r.made++
		taken = OfLevels | OfSpread
	}
	rest, err := r.base.TakeEstimate(text)
	return taken | rest, err
}
