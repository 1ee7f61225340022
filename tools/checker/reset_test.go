package checker

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// stateTool opens the state commands.
func (w *world) stateTool(t testing.TB, now func() event.Millis) *admin.Tool {
	t.Helper()
	var o admin.Options
	if now != nil {
		o.Now = func() time.Time { return time.UnixMilli(now()) }
	}
	tool, err := admin.New(w.cfg, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tool.Close()) })
	return tool
}

// command carries a state command out when the workers are gone.
func command(t testing.TB, do func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	for {
		err := do(ctx)
		if err == nil {
			return
		}
		require.ErrorIs(t, err, admin.ErrLive)
		require.NoError(t, pause(ctx, 50*time.Millisecond))
	}
}

// everyLearner are those of the victim.
var everyLearner = []string{"feed", "front", "given", "near", "place", "liked", "social"}

// since are corruptions of learners' statistics that are found although the learners were reset, or imported statistics.
var since = []corruption{
	{itemsSums, "a payoff too many", func(t *testing.T, v *victim) func() {
		return v.stats(t, "near", `"n":`, `"n":1`)
	}},
	{itemsSums, "a sum that is wrong", func(t *testing.T, v *victim) func() {
		return v.stats(t, "given", `"sum":`, `"sum":1`)
	}},
	{boldRounds, "a payoff fed twice", func(t *testing.T, v *victim) func() {
		return v.add(t, "place:rounds", v.anyField(t, "place:rounds"), 1)
	}},
	{boldVectors, "a loss that is wrong, of an item", func(t *testing.T, v *victim) func() { return v.vector(t, "given:vectors", 1e-9) }},
	{boldVectors, "a loss that is wrong, of a rank", func(t *testing.T, v *victim) func() { return v.vector(t, "place:vectors", 1e-9) }},
	{boldWindows, "a selection too many", func(t *testing.T, v *victim) func() {
		return v.add(t, "place:windows", v.anyField(t, "place:windows"), 1)
	}},
	{preferences, "a selection too many", func(t *testing.T, v *victim) func() {
		return v.add(t, "liked:preferences", v.anyField(t, "liked:preferences"), 1)
	}},
	{preferences, "an estimate that is lost", func(t *testing.T, v *victim) func() {
		return v.unset(t, v.key(0, "social:utilities"), v.anyField(t, "social:utilities"))
	}},
	{delayFlights, "one in flight too many", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "near:flights"), v.number(t, "near", "a"), "5")
	}},
	{entriesLost, "an earlier impression is lost", func(t *testing.T, v *victim) func() { return v.unset(t, v.page(0, "f7"), storedID("f7")) }},
	{entriesDecision, "an earlier impression is taken for a later one", func(t *testing.T, v *victim) func() {
		return v.entry(t, "f7", func(e *entry) {
			e.learner, e.selected = v.learnerNumber(t, "feed"), -1
		})
	}},
}

// stats changes the first number behind a name in a stored row of a learner.
func (v *victim) stats(t *testing.T, learner, name, to string) func() {
	t.Helper()
	item := v.anyField(t, learner+":items")
	return v.set(t, v.key(0, learner+":items"), item, strings.Replace(v.field(t, learner+":items", item), name, to, 1))
}

func (v *victim) learnerNumber(t *testing.T, name string) int32 {
	t.Helper()
	var n int32
	_, err := fmt.Sscanf(v.field(t, "meta", "learner."+name), `{"no":%d`, &n)
	require.NoError(t, err)
	return n
}

func (v *victim) requireFound(t *testing.T, list []corruption, what string) {
	t.Helper()
	r := v.check(t)
	requireClean(t, r)
	for _, c := range list {
		undo := c.do(t, v)
		r := v.check(t)
		undo()
		t.Logf("%s: %s", what, c.what)
		requireBroken(t, r, c.law)
	}
	requireClean(t, v.check(t))
}

// TestKnowledgeAfterResetAndImportIsCompared: after a reset the fold begins with later
// impressions, after an import with the imported values; corruption is found as before.
func TestKnowledgeAfterResetAndImportIsCompared(t *testing.T) {
	t.Parallel()
	v := newVictim(t)
	v.live(t)
	tool := v.stateTool(t, nil)
	var export bytes.Buffer
	command(t, func(ctx context.Context) error {
		export.Reset()
		_, err := tool.Export(ctx, "", &export)
		return err
	})
	for _, learner := range everyLearner {
		command(t, func(ctx context.Context) error { _, err := tool.Reset(ctx, learner, true); return err })
	}
	requireClean(t, v.check(t))
	w := v.start(t, v.now)
	v.put(t, "selections", "f7", `"item":"a"`) // from before the reset: refused
	v.put(t, "payoffs", "f5", `"payoff":0.5`)  // likewise
	v.teach(t, "4")
	w.stop(t)
	v.requireFound(t, since, "after a reset")

	for _, learner := range everyLearner {
		command(t, func(ctx context.Context) error {
			_, err := tool.Import(ctx, bytes.NewReader(export.Bytes()), admin.ImportQuery{Learner: learner})
			return err
		})
	}
	requireClean(t, v.check(t))
	w = v.start(t, v.now)
	v.teach(t, "5")
	w.stop(t)
	v.requireFound(t, since, "after a reset and an import")
	v.requireFound(t, []corruption{{itemsSums, "what was taken in is lost", func(t *testing.T, v *victim) func() {
		return v.set(t, v.key(0, "feed:items"), "a", fmt.Sprintf(`{"no":%s,"n":0,"sum":0,"sumsq":0}`, v.number(t, "feed", "a")))
	}}}, "after an import")

	for _, learner := range everyLearner { // the earlier import is given up too
		command(t, func(ctx context.Context) error { _, err := tool.Reset(ctx, learner, true); return err })
	}
	require.Zero(t, v.redis.Exists(t.Context(), v.key(0, "near:imported")).Val())
	w = v.start(t, v.now)
	v.teach(t, "6")
	w.stop(t)
	v.requireFound(t, since, "after another reset")
}
