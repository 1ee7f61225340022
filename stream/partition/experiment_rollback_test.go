package partition

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
)

// copied is a copy of all that is stored.
func (s *memory) copied() *memory {
	c := newMemory()
	c.deltas, c.texts = s.deltas, maps.Clone(s.texts)
	for hash, fields := range s.fields {
		c.fields[hash] = maps.Clone(fields)
	}
	for n, p := range s.pages {
		c.pages[n] = &memoryPage{p.bucket, maps.Clone(p.entries)}
	}
	return c
}

// rollBack loads an earlier store.
func (w *world) rollBack(to *memory) {
	w.store, w.unsaved = to.copied(), nil
	w.start()
	w.m.time.newest = w.newest
	w.walkKnown()
}

// periodsWorld has three partitions whose units of one period and user groups have ended and are closed, and the totals of all of them.
func periodsWorld(t *testing.T) (worlds []*world, end event.Millis, want experiment.Totals) {
	const period = 3_600_000
	cfg := trialConfig(t, func(x *ExperimentConfig, s *experiment.Settings) { s.ByUser, s.Period, x.Guarded = true, period, false })
	groups := make(experiment.Groups, experiment.GroupCount)
	begin := event.Millis(day / period * period)
	for p := range int32(3) {
		cfg.Partition, cfg.Partitions = p, 3
		w := pooledWorld(t, cfg)
		w.pass(begin)
		for k := range 90 {
			id, user := fmt.Sprintf("p%d-%d", p, k), fmt.Sprint("u-", k%50+10*int(p))
			w.ranked(id, user, begin+event.Millis(k))
			w.worth(id, float64(k%2), begin+event.Millis(k))
			groups.Add(experiment.GroupOf([]byte(user)), experiment.Unit(1, 0).Add(experiment.Of(float64(k%2), 0)))
		}
		worlds = append(worlds, w)
	}
	want = make(experiment.Totals, 2)
	cfg.Experiments[0].Fold(want, begin/period, groups)
	end = begin + period + settled + 60_000
	for _, w := range worlds {
		w.pass(end)
	}
	return worlds, end, want
}

// readOthers has all partitions read the stored fields of all others, and go on.
func readOthers(worlds []*world, at event.Millis) {
	for _, to := range worlds {
		for source, from := range worlds {
			if to != from {
				readAll(to, int32(source), from.store.fields[ExperimentsHash])
			}
		}
		to.pass(at)
	}
}

// By user a period is folded once all partitions have closed it, with whole groups.
func TestExperiment_PeriodsAreFoldedOverAllPartitions(t *testing.T) {
	worlds, end, want := periodsWorld(t)
	first := worlds[0]
	readAll(first, 1, worlds[1].store.fields[ExperimentsHash])
	first.pass(end + 60_000)
	require.Zero(t, first.m.trials.all[0].sums.totals[0].N, "one partition is away")
	readAll(first, 2, worlds[2].store.fields[ExperimentsHash])
	first.pass(end + 120_000)
	require.Equal(t, want, first.m.trials.all[0].sums.totals)

	require.Contains(t, strings.Join(keysOf(worlds[1].store.fields[ExperimentsHash]), " "), pastField)
	readAll(worlds[1], 0, first.store.fields[ExperimentsHash])
	worlds[1].save()
	require.NotContains(t, strings.Join(keysOf(worlds[1].store.fields[ExperimentsHash]), " "), pastField, "folded, and of no more use")
	first.start()
	require.Equal(t, want, first.m.trials.all[0].sums.totals)
}

// A period that is folded stays folded whichever partition is rolled back to a moment before: no unit is lost, and none counts twice.
func TestExperiment_FoldedPeriodsSurviveARollback(t *testing.T) {
	for _, back := range [][]int{{0}, {1}, {0, 1}, {0, 1, 2}} {
		t.Run(fmt.Sprint(back), func(t *testing.T) {
			worlds, end, want := periodsWorld(t)
			var before []*memory
			for _, w := range worlds {
				before = append(before, w.store.copied())
			}
			readOthers(worlds, end+60_000)
			require.Equal(t, want, worlds[0].m.trials.all[0].sums.totals)
			readOthers(worlds, end+120_000)
			for _, w := range worlds {
				require.NotContains(t, strings.Join(keysOf(w.store.fields[ExperimentsHash]), " "), pastField, "it is folded")
			}

			for _, p := range back {
				worlds[p].rollBack(before[p])
				worlds[p].pass(end + 120_000)
			}
			readOthers(worlds, end+180_000)
			readOthers(worlds, end+240_000)
			for p, w := range worlds {
				require.Equal(t, want, w.m.trials.all[0].sums.totals, "partition %d", p)
				require.NotContains(t, strings.Join(keysOf(w.store.fields[ExperimentsHash]), " "), pastField)
				w.start()
				require.Equal(t, want, w.m.trials.all[0].sums.totals, "partition %d, loaded", p)
			}
		})
	}
}

// The deciding partition forgets its state altogether: a rebuild counts its own units of the log again, in a period that others have dropped.
func TestExperiment_FoldedPeriodsSurviveARebuild(t *testing.T) {
	worlds, end, want := periodsWorld(t)
	readOthers(worlds, end+60_000)
	readOthers(worlds, end+120_000)
	fresh := newWorld(t, worlds[0].cfg)
	for k := range 90 { // as its log has it
		id, at := fmt.Sprintf("p%d-%d", 0, k), event.Millis(day)+event.Millis(k)
		fresh.ranked(id, fmt.Sprint("u-", k%50), at)
		fresh.worth(id, float64(k%2), at)
	}
	worlds[0] = fresh
	readOthers(worlds, end+180_000)
	readOthers(worlds, end+240_000)
	require.Equal(t, want, fresh.m.trials.all[0].sums.totals)
	require.NotContains(t, strings.Join(keysOf(fresh.store.fields[ExperimentsHash]), " "), pastField)
}

// While all fields of a source are read again, one part after another, the earlier ones hold: else a period would count as closed whose
// groups are still to come. Then the pool is another version, or nobody would look at it.
func TestPool_ReadsASourceAgainAsAWhole(t *testing.T) {
	p := newPool()
	p.set(1, "a", []byte("1"))
	p.set(1, "gone", []byte("1"))
	before := p.version
	p.begin(1)
	p.begin(2)
	p.set(1, "a", []byte("2"))
	p.set(2, "b", []byte("3"))
	require.Equal(t, map[string]string{"a": "1", "gone": "1"}, p.of[1])
	require.Empty(t, p.of[2])
	require.Equal(t, before, p.version)
	p.endResync(1)
	require.Equal(t, map[string]string{"a": "2"}, p.of[1])
	require.Greater(t, p.version, before)
	p.endResync(2)
	p.set(2, "b", nil)
	require.Empty(t, p.of[2])
}
