package checker

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// rankings reads all rankings in the log.
func (v *victim) rankings(t *testing.T) []partition.Record {
	t.Helper()
	b, err := app.NewBroker(v.cfg)
	require.NoError(t, err)
	defer b.Close()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	var all []partition.Record
	for next := int64(0); ; {
		f, err := b.Partition(0).Fetch(ctx, task.Fetch{Topic: event.Rankings, Offset: next, MaxBytes: 1 << 20, MaxWait: 100 * time.Millisecond})
		require.NoError(t, err)
		if all, next = append(all, f.Records...), f.Next; next >= f.High {
			return all
		}
	}
}

// claim makes Redis say that one more record of a topic was read, which came to an outcome.
func (v *victim) claim(t *testing.T, topic, outcome string) {
	t.Helper()
	v.add(t, "meta", "offset."+topic, 1)
	v.add(t, "meta", "account."+topic+".read", 1)
	token := map[string]string{"selections": "01", "payoffs": "21", "impressions": "41"}[topic]
	v.set(t, v.key(0, "meta"), "steps", v.field(t, "meta", "steps")+token)
	if outcome != "" {
		n := v.redis.HIncrBy(t.Context(), v.key(0, "meta"), "account."+topic+"."+outcome, 1)
		require.NoError(t, n.Err())
	}
}

// forge puts an impression into the log and a ranking of it that no worker made, and claims that it was read.
func (v *victim) forge(t *testing.T, id, learner string, change func(*event.Ranking)) {
	t.Helper()
	offset := v.offsets["impressions"]
	v.impression(t, id, learner)
	r := event.Ranking{ID: []byte(id), Learner: []byte(learner), Time: v.now(), Items: [][]byte{[]byte("a"), []byte("b"), []byte("c")}}
	r.Decision = event.Decision{Group: v.group, Policy: "greedy", Delay: "qpmd", Offset: offset, Layout: 1, Instance: -1,
		HasSelection: true, SelectionDeadline: v.now() + 600_000, PayoffDeadline: v.now() + 3_600_000}
	if learner == "front" {
		r.Decision.Policy, r.Decision.Delay, r.Decision.Instance = "osmd", "bold", 0
		r.Decision.Propensities = []float64{0.5, 0.25, 0.25}
	}
	change(&r)
	header := v.steps(t)
	v.raw(t, id, event.AppendRanking(nil, &r), header)
	v.claim(t, "impressions", "pending")
	from, steps, err := parseSteps(header)
	require.NoError(t, err)
	v.set(t, v.key(0, "meta"), "steps", "1 "+hex.EncodeToString(binary.AppendUvarint(nil, uint64(reached(from, steps)))))
}

// steps is the header of the stored steps.
func (v *victim) steps(t *testing.T) []byte {
	t.Helper()
	header, err := storedSteps(v.field(t, "meta", "steps"))
	require.NoError(t, err)
	return header
}

// raw puts a record into the rankings, as a worker would that owned the partition.
func (v *victim) raw(t *testing.T, id string, value, steps []byte) {
	t.Helper()
	if v.owner == nil {
		client, err := kgo.NewClient(kgo.SeedBrokers(v.cfg.Kafka.Brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		require.NoError(t, err)
		t.Cleanup(client.Close)
		number, _, err := client.ProducerID(t.Context())
		require.NoError(t, err)
		v.set(t, v.key(0, "meta"), "former_producers", fmt.Sprintf("[%d]", number))
		v.owner = client
	}
	rec := &kgo.Record{Topic: v.cfg.Kafka.Topics.Rankings, Key: []byte(id), Value: value}
	if steps != nil {
		rec.Headers = []kgo.RecordHeader{{Key: "steps", Value: steps}}
	}
	require.NoError(t, v.owner.ProduceSync(t.Context(), rec).FirstErr())
}

// logCorruptions spoil the log; none can be undone.
var logCorruptions = []struct {
	law  law
	what string
	do   func(t *testing.T, v *victim)
}{
	{rankingsMissing, "an impression went by without a ranking", func(t *testing.T, v *victim) {
		v.impression(t, "skipped", "feed")
		v.claim(t, "impressions", "duplicate")
	}},
	{rankingsItems, "an item instead of another", func(t *testing.T, v *victim) {
		v.forge(t, "x1", "feed", func(r *event.Ranking) { r.Items[0] = []byte("d") })
	}},
	{rankingsItems, "an item is missing", func(t *testing.T, v *victim) {
		v.forge(t, "x2", "feed", func(r *event.Ranking) { r.Items = r.Items[:2] })
	}},
	{rankingsDecision, "of another impression", func(t *testing.T, v *victim) {
		v.forge(t, "x3", "feed", func(r *event.Ranking) { r.ID = []byte("x2") })
	}},
	{rankingsDecision, "by another policy", func(t *testing.T, v *victim) {
		v.forge(t, "x4", "feed", func(r *event.Ranking) { r.Decision.Policy = "moss" })
	}},
	{rankingsDecision, "for another partition", func(t *testing.T, v *victim) {
		v.forge(t, "x5", "feed", func(r *event.Ranking) { r.Decision.Partition = 1 })
	}},
	{rankingsDecision, "in a layout that this version does not write", func(t *testing.T, v *victim) {
		v.forge(t, "x11", "feed", func(r *event.Ranking) { r.Decision.Layout = 2 })
	}},
	{rankingsDeadlines, "a deadline that is not configured", func(t *testing.T, v *victim) {
		v.forge(t, "x6", "feed", func(r *event.Ranking) { r.Decision.PayoffDeadline += 60_000 })
	}},
	{rankingsDeadlines, "counted from two moments", func(t *testing.T, v *victim) {
		v.forge(t, "x7", "feed", func(r *event.Ranking) { r.Decision.SelectionDeadline++ })
	}},
	{rankingsPropensities, "more than one in all", func(t *testing.T, v *victim) {
		v.forge(t, "x8", "front", func(r *event.Ranking) { r.Decision.Propensities[0] = 0.6 })
	}},
	{rankingsPropensities, "none where there are instances", func(t *testing.T, v *victim) {
		v.forge(t, "x9", "front", func(r *event.Ranking) { r.Decision.Propensities = nil })
	}},
	{rankingsAdmissible, "the lowest utility with certainty", func(t *testing.T, v *victim) {
		v.forge(t, "x10", "given", func(r *event.Ranking) {
			r.Decision.Policy, r.Decision.Delay, r.Decision.Instance = "ftrl", "bold", 0
			r.Decision.Propensities = []float64{1, 0, 0}
		})
	}},
	{rankingsRules, "a mark of rules where there are none", func(t *testing.T, v *victim) {
		v.forge(t, "x14", "feed", func(r *event.Ranking) { r.Decision.Decided = []int32{1, 0, 2} })
	}},
	{rankingsOnce, "an id that is known", func(t *testing.T, v *victim) {
		v.forge(t, "f7", "feed", func(*event.Ranking) {})
	}},
	{deadLetters, "a faulty record without a dead letter", func(t *testing.T, v *victim) {
		v.put(t, "payoffs", "x", "{")
		v.claim(t, "payoffs", "rejected")
	}},
	{accountRead, "a payoff was read and not counted", func(t *testing.T, v *victim) {
		v.put(t, "payoffs", "f7", `"payoff":0.5`)
		v.add(t, "meta", "offset.payoffs", 1)
	}},
	{experimentsArm, "outside of its experiment", func(t *testing.T, v *victim) { v.forge(t, "x12", "tried", func(*event.Ranking) {}) }},
	{experimentsVerdict, "in the place of an arm that is in service", func(t *testing.T, v *victim) {
		v.forge(t, "x13", "tried", func(r *event.Ranking) {
			r.Decision.Assignment = event.Assignment{Experiment: "tried", Run: 1, Arm: "same", Probability: 0.5, Fallback: true}
		})
	}},
	{experimentsArm, "by another learner than the default", func(t *testing.T, v *victim) {
		v.forge(t, "x15", "", func(r *event.Ranking) { r.Learner, r.Decision.Delay = []byte("near"), "direct" })
	}},
	{stepsChain, "by an owner that went on from another history", func(t *testing.T, v *victim) {
		from, steps, err := parseSteps(v.steps(t))
		require.NoError(t, err)
		header := []byte{77, tokenSaid<<5 | saidRead}
		for _, role := range roles[:event.Inputs] {
			header = binary.AppendUvarint(header, uint64(v.offsets[role]))
		}
		header = binary.AppendUvarint(header, uint64(reached(from, steps)))
		v.set(t, v.key(0, "meta"), "steps", "1 "+hex.EncodeToString(header))
		v.forge(t, "x16", "feed", func(*event.Ranking) {})
	}},
	{rankingsReadable, "a ranking that cannot be read", func(t *testing.T, v *victim) {
		v.raw(t, "f7", fmt.Appendf(nil, `{"impression_id":"f7","decision":{"group":%q}}`, v.group), nil)
	}},
	{rankingsOnce, "a ranking twice", func(t *testing.T, v *victim) {
		all := v.rankings(t)
		last := all[len(all)-2] // the very last one cannot be read
		v.raw(t, string(last.Key), last.Value, nil)
	}},
	{rankingsOrder, "an earlier ranking again", func(t *testing.T, v *victim) {
		first := v.rankings(t)[0]
		v.raw(t, string(first.Key), first.Value, nil)
	}},
}

// TestEachLawOfTheLogIsSeenBroken spoils the topics, one thing after another, and sees the law named that this breaks: in a
// new violation each time.
func TestEachLawOfTheLogIsSeenBroken(t *testing.T) {
	t.Parallel()
	v := newVictim(t)
	v.live(t)
	before := v.check(t)
	requireClean(t, before)
	broken := map[law]bool{}
	for _, c := range corruptions {
		broken[c.law] = true
	}
	for _, c := range logCorruptions {
		c.do(t, v)
		r := v.check(t)
		had := map[string]bool{}
		for _, old := range before.Violations {
			had[old.String()] = true
		}
		found := false
		for _, now := range r.Violations {
			if !had[now.String()] && now.Law == lawNames[c.law] {
				t.Logf("%s: %s", c.what, now)
				found = true
			}
		}
		require.True(t, found, "%s: %s is not named, but: %v", c.what, lawNames[c.law], r.Violations)
		before, broken[c.law] = r, true
	}
	var unseen []string
	for l := range law(len(lawNames)) {
		if !broken[l] {
			unseen = append(unseen, lawNames[l])
		}
	}
	require.Empty(t, unseen, "laws that nothing here breaks: %s", strings.Join(unseen, ", "))
}

// TestLostStateIsAViolation: where the group has ranked and Redis holds nothing, something is wrong; where it has not,
// nothing is.
func TestLostStateIsAViolation(t *testing.T) {
	v := newVictim(t)
	r := v.check(t)
	requireClean(t, r)
	require.NotEmpty(t, r.Unchecked)
	w := v.start(t, v.now)
	v.impression(t, "i", "feed")
	v.settle(t)
	w.stop(t)
	requireClean(t, v.check(t))
	require.NoError(t, v.redis.FlushDB(t.Context()).Err())
	requireBroken(t, v.check(t), metaFields)
}

// TestWhatIsNotKnownIsSaid: a hash, a field or a key that nothing here can check is listed.
func TestWhatIsNotKnownIsSaid(t *testing.T) {
	v := newVictim(t)
	w := v.start(t, v.now)
	v.impression(t, "i", "feed")
	v.settle(t)
	w.stop(t)
	v.set(t, v.key(0, "feed:preferences"), "a:b", "3")
	v.set(t, v.key(0, "stranger:items"), "a", "{}")
	v.set(t, v.key(0, "feed:learner"), "x", "y")
	v.set(t, v.key(0, "meta"), "history.7", `{"number":7,"done":"reset","learner":"near","was":"near@3","offsets":[0,0,0]}`)
	v.set(t, v.key(0, "meta"), "history.8", `{"number":8,"done":"import","learner":"front"}`)
	require.NoError(t, v.redis.Set(t.Context(), v.key(0, "odd"), "1", 0).Err())
	r := v.check(t)
	requireClean(t, r)
	all := strings.Join(r.Unchecked, "\n")
	for _, want := range []string{`"feed:preferences"`, `"stranger:items"`, `field "x"`, `key "odd"`, `"near" was reset`, `"front" took`} {
		require.Contains(t, all, want)
	}
}
