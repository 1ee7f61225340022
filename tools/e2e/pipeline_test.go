// Package e2e plays the whole pipeline, on the embedded pair of Kafka and Redis and on the real ones.
package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/platform"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

// checkAccount compares the stored account with the users' records: none lost, none counted twice.
func checkAccount(t *testing.T, got map[string]int64, sent platform.Progress) {
	t.Helper()
	sum := func(names ...string) (n int64) {
		for _, name := range names {
			n += got[name]
		}
		return n
	}
	require.Equal(t, int64(sent.Impressions), sum("impressions.paid", "impressions.expired", "impressions.defaulted",
		"impressions.unselected", "impressions.pending"), "%v", got)
	require.Zero(t, sum("impressions.duplicate", "impressions.rejected", "selections.orphan", "selections.late",
		"selections.rejected", "payoffs.late", "payoffs.rejected"), "%v", got)
	require.Equal(t, int64(sent.Selections), sum("selections.joined", "selections.duplicate", "selections.parked"), "%v", got)
	require.Equal(t, int64(sent.Payoffs), sum("payoffs.applied", "payoffs.duplicate", "payoffs.orphan", "payoffs.parked"), "%v", got)
	require.Equal(t, got["impressions.paid"], got["payoffs.applied"], "each payoff applied pays one impression: %v", got)
}

// TestPipeline_RankJoinLearnThroughARestart: a worker ranks, joins and learns; in the middle it is drained and another
// takes over.
func TestPipeline_RankJoinLearnThroughARestart(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		const impressions = 3000
		w := newWorld(t, env, 3, "policy: elimination")
		half := make(chan struct{})
		closed := false
		first := w.start(t)
		p, done := w.play(t, impressions, 1, func(p platform.Progress) {
			if !closed && p.Rankings >= impressions/2 {
				closed = true
				close(half)
			}
		})
		select {
		case <-half:
		case err := <-done:
			t.Fatalf("the play ended before its middle: %v", err)
		case <-time.After(deadline):
			t.Fatal("half of the impressions were not ranked in time")
		}
		first.stop(t)
		second := w.start(t)
		require.NoError(t, <-done)
		got := w.await(t, p.sent)
		second.stop(t)
		checkAccount(t, got, p.sent)
		w.ranked(t, impressions)
		require.Less(t, p.users[0].Ledger.Regret, p.users[0].Ledger.RegretUtilityOrder, "it pays better than ranking by utility")
	})
}

// TestPipeline_FaultyRecordsGoToTheDeadLetterTopic: each with its reason and its original bytes, and the task goes on.
func TestPipeline_FaultyRecordsGoToTheDeadLetterTopic(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		t.Parallel() // each waits: a record of an unknown learner is refused seconds later
		w := newWorld(t, env, 1, "policy: greedy")
		topics := w.cfg.Kafka.Topics
		faulty := []struct{ topic, key, value, reason string }{
			{topics.Impressions, "x", `{`, "malformed_json"},
			{topics.Impressions, "x", `{"impression_id":"y","candidates":[{"item":"a","utility":1}]}`, "key_mismatch"},
			{topics.Impressions, "x", `{"impression_id":"x","candidates":[]}`, "no_candidates"},
			{topics.Impressions, "x", `{"impression_id":"x","learner":"nobody","candidates":[{"item":"a","utility":1}]}`, "unknown_learner"},
			{topics.Payoffs, "x", `{"impression_id":"x","payoff":1e999}`, "not_finite"},
		}
		var batch []kafka.Message
		for _, f := range faulty {
			batch = append(batch, kafka.Message{Topic: f.topic, Key: []byte(f.key), Value: []byte(f.value)})
		}
		batch = append(batch, kafka.Message{Topic: topics.Impressions, Key: []byte("good"),
			Value: []byte(`{"impression_id":"good","candidates":[{"item":"a","utility":1},{"item":"b","utility":2}]}`)})
		r := w.start(t)
		w.publish(t, batch...)
		require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] == 5 && w.counts(t)["payoffs.read"] == 1 },
			deadline, 50*time.Millisecond)
		r.stop(t)
		w.ranked(t, 1)
		letters := append(w.letters(t, topics.Impressions, 4), w.letters(t, topics.Payoffs, 1)...)
		for i, f := range faulty {
			headers := map[string]string{}
			for _, h := range letters[i].Headers {
				headers[h.Key] = string(h.Value)
			}
			require.Equal(t, f.value, string(letters[i].Value))
			require.Equal(t, f.key, string(letters[i].Key))
			require.Equal(t, f.topic, headers["__streams.errors.topic"])
			require.Equal(t, "0", headers["__streams.errors.partition"])
			require.NotEmpty(t, headers["__streams.errors.message"])
			require.Equal(t, f.reason, headers["__streams.errors.exception"])
		}
	})
}

// TestPipeline_OverlongRecordIsCut: a record far longer than allowed came in few bytes. Its beginning is a dead letter that says its
// length. A worker that takes over finds its place in the log by it.
func TestPipeline_OverlongRecordIsCut(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		w := newWorld(t, env, 1, "policy: greedy")
		topic := w.cfg.Kafka.Topics.Payoffs
		const size = 9 << 20
		writer := &kafka.Writer{Transport: w.transport(t), Addr: kafka.TCP(env.Kafka), Topic: topic, BatchBytes: 2 * size,
			BatchTimeout: time.Millisecond, RequiredAcks: kafka.RequireAll, Compression: kafka.Zstd}
		defer writer.Close()
		value := bytes.Repeat([]byte(" "), size)
		require.NoError(t, writer.WriteMessages(t.Context(), kafka.Message{Key: []byte("x"), Value: value}))
		for n := range 2 {
			r := w.start(t)
			r.awaitReady(t)
			require.Eventually(t, func() bool { return w.counts(t)["payoffs.rejected"] == int64(n+1) }, deadline, 20*time.Millisecond)
			r.stop(t)
			require.NoError(t, writer.WriteMessages(t.Context(), kafka.Message{Key: []byte("x"), Value: []byte("{")}))
		}
		letter := w.letters(t, topic, 2)[0]
		headers := map[string]string{}
		for _, h := range letter.Headers {
			headers[h.Key] = string(h.Value)
		}
		require.Equal(t, "record_too_large", headers["__streams.errors.exception"])
		require.Equal(t, fmt.Sprintf("key and value have %d bytes, a value may have at most %d", size+1, 1<<20), headers["__streams.errors.message"])
		require.Equal(t, strconv.Itoa(size+1), headers["ranker.truncated.from"])
		require.True(t, bytes.HasPrefix(value, letter.Value))
		require.NotEmpty(t, letter.Value)
	})
}

// TestPipeline_ItemStatisticsAreReadable: a person finds an item's statistics with redis-cli.
func TestPipeline_ItemStatisticsAreReadable(t *testing.T) {
	t.Parallel()
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		w := newWorld(t, env, 1, "policy: greedy")
		r := w.start(t)
		topics := w.cfg.Kafka.Topics
		w.publish(t,
			kafka.Message{Topic: topics.Impressions, Key: []byte("i"), Value: []byte(`{"impression_id":"i","candidates":[{"item":"film-42","utility":1}]}`)},
			kafka.Message{Topic: topics.Selections, Key: []byte("i"), Value: []byte(`{"impression_id":"i","item":"film-42"}`)},
			kafka.Message{Topic: topics.Payoffs, Key: []byte("i"), Value: []byte(`{"impression_id":"i","payoff":0.25}`)})
		require.Eventually(t, func() bool { return w.counts(t)["payoffs.applied"] == 1 }, deadline, 50*time.Millisecond)
		r.stop(t)
		text, err := w.redis.HGet(t.Context(), fmt.Sprintf("{%s:0}:feed:items", w.group), "film-42").Result()
		require.NoError(t, err)
		var item struct {
			N          int     `json:"n"`
			Sum, Sumsq float64 `json:",omitempty"`
		}
		require.NoError(t, json.Unmarshal([]byte(text), &item), text)
		require.Equal(t, 1, item.N)
		require.Equal(t, 0.25, item.Sum)
	})
}
