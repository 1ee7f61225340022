package partition

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

func (t *trials) seal(dst *state.Changes) {
	if t.arms.changed {
		v := []byte(trialVersion)
		for _, a := range t.arms.all {
			v = appendNumbers(append(append(v, ' '), a.experiment...), int64(a.run))
			v = append(append(v, ' '), a.arm...)
		}
		t.write(dst, armsField, v, false)
		t.arms.changed = false
	}
	for _, field := range t.strays {
		t.write(dst, field, nil, true)
	}
	t.strays = t.strays[:0]
	for _, x := range t.all {
		x.seal(t, dst)
	}
}

func (t *trials) write(dst *state.Changes, field string, value []byte, publish bool) {
	dst.Writes = append(dst.Writes, state.Write{Hash: ExperimentsHash, Field: []byte(field), Value: value, Publish: publish})
}

func (x *trial) stamp() []byte { return appendNumbers([]byte(trialVersion), int64(x.Run)) }

func (x *trial) seal(t *trials, dst *state.Changes) {
	if x.idle {
		return
	}
	if x.changed {
		t.write(dst, x.Name+runField, append(append(appendNumbers(x.stamp(), x.since), ' '), x.Definition...), false)
		x.changed = false
	}
	for k := range x.arms {
		v := &x.arms[k].verdict
		if !v.changed {
			continue
		}
		value := appendNumbers(x.stamp(), v.units)
		for _, bound := range []float64{v.lower, v.upper} {
			value = strconv.AppendFloat(append(value, ' '), bound, 'g', -1, 64)
		}
		said := int64(0)
		if v.said {
			said = 1
		}
		t.write(dst, x.Name+verdictField+x.arms[k].learner.name, appendNumbers(value, said), true)
		v.changed = false
	}
	x.sealSums(t, dst)
}

func (x *trial) sealSums(t *trials, dst *state.Changes) {
	s := &x.sums
	if s.changedTotals && x.ByUser {
		t.write(dst, x.Name+foldedField, x.appendFolded(nil, s.folded, s.totals), true)
	} else if s.changedTotals {
		t.write(dst, x.Name+totalsField, x.AppendTotals(nil, s.totals), true)
	}
	s.changedTotals = false
	for _, n := range ascending(s.changedCohorts) {
		var value []byte
		if by := s.cohorts.Get(n); by != nil {
			value = x.AppendCohort(nil, by)
		}
		t.write(dst, x.Name+cohortField+strconv.FormatInt(n, 10), value, false)
	}
	clear(s.changedCohorts)
	if x.ByUser {
		x.sealPeriods(t, dst)
	}
}

func (x *trial) sealPeriods(t *trials, dst *state.Changes) {
	s := &x.sums
	blocks := slices.SortedFunc(maps.Keys(s.changedBlocks), func(a, b groupBlock) int {
		return cmp.Or(cmp.Compare(a.period, b.period), cmp.Compare(a.block, b.block))
	})
	for _, b := range blocks {
		var value []byte
		if groups := s.periods[b.period]; groups != nil {
			from := int(b.block) * groupsInBlock
			value = x.AppendGroups(nil, groups, from, from+groupsInBlock)
		}
		t.write(dst, x.Name+groupsField+strconv.FormatInt(b.period, 10)+":"+strconv.Itoa(int(b.block)), value, false)
	}
	clear(s.changedBlocks)
	for _, p := range ascending(s.changedPast) {
		var value []byte
		if groups := s.past[p]; groups != nil {
			value = x.AppendGroups(nil, groups, 0, experiment.GroupCount)
		}
		t.write(dst, x.Name+pastField+strconv.FormatInt(p, 10), value, true)
	}
	clear(s.changedPast)
	if s.changedClosed {
		t.write(dst, x.Name+closedField, appendNumbers(x.stamp(), s.closed), true)
		s.changedClosed = false
	}
}
