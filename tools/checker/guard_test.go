package checker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

// verdict returns a partition's stored verdict on the arm tried.
func (v *victim) verdict(t testing.TB, p int) string {
	t.Helper()
	fields, err := v.redis.HGetAll(t.Context(), v.key(p, "experiments")).Result()
	require.NoError(t, err)
	return fields["tried:verdict:tried"]
}

// TestAVerdictStays: a guard's verdict outlives its worker, which is killed as soon as it is saved. All
// partitions take it over, rank by it, and log it once. A state rebuilt from the topics has it again.
func TestAVerdictStays(t *testing.T) {
	t.Parallel()
	const partitions = 3
	experiments := strings.Replace(victimExperiments, "control: same}", "control: same, guard: {margin: 0.02, fallback: same}}", 1)
	require.NotEqual(t, victimExperiments, experiments)
	v := &victim{world: newWorld(t, testenv.Embedded(t), partitions, victimLearners, experiments), offsets: map[string]int64{}}
	v.clock.Store(start)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	rank := func(prefix string, n int, pays bool) {
		for k := range n {
			v.impression(t, fmt.Sprint(prefix, k), "tried")
		}
		v.settle(t)
		for k := 0; pays && k < n; k++ {
			id, payoff := fmt.Sprint(prefix, k), 0
			if arm, _ := drawn(&v.cfg.Experiments[0], id); arm == "same" {
				payoff = 1
			}
			v.put(t, "selections", id, `"item":"a"`)
			v.put(t, "payoffs", id, fmt.Sprintf(`"payoff":%d`, payoff))
		}
		v.settle(t)
	}
	w := v.start(t, v.now)
	rank("early", 300, true)
	for v.verdict(t, 0) == "" {
		if v.now() < start+80*time.Minute.Milliseconds() {
			v.clock.Add(time.Minute.Milliseconds())
		}
		require.NoError(t, pause(ctx, 5*time.Millisecond), "for the verdict")
	}
	w.crash(t)

	w = v.start(t, v.now)
	rank("later", 30, true)
	for p := range partitions {
		for v.verdict(t, p) == "" {
			require.NoError(t, pause(ctx, 20*time.Millisecond), "for the verdict of partition %d", p)
		}
	}
	rank("last", 60, false)
	w.stop(t)
	r := v.check(t)
	requireClean(t, r)
	var before [partitions]string
	for p := range partitions {
		before[p] = v.verdict(t, p)
		require.Equal(t, strings.TrimSuffix(before[0], " 1"), strings.TrimSuffix(before[p], " 1"), "one verdict")
		require.True(t, strings.HasSuffix(before[p], " 1"), "a ranking reports it: %s", before[p])
	}

	keys, err := v.redis.Keys(t.Context(), fmt.Sprintf("{%s*", v.group)).Result()
	require.NoError(t, err)
	for _, k := range keys {
		require.NoError(t, v.redis.Del(t.Context(), k).Err())
	}
	tool := v.stateTool(t, v.now)
	command(t, func(ctx context.Context) error { _, err := tool.Rebuild(ctx, admin.RebuildQuery{}); return err })
	for p := range partitions {
		require.Equal(t, before[p], v.verdict(t, p), "rebuilt")
	}
	w = v.start(t, v.now)
	rank("rebuilt", 60, false)
	w.stop(t)
	requireClean(t, v.check(t))
}
