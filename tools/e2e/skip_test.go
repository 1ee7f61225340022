package e2e

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// TestState_Skip: an unreadable batch of payoffs blocks its partition, and no other. Skipped,
// its records are in the account, in dead letters and in the history, and later ones are
// processed; so again after the state was lost and rebuilt. A readable record is not skipped.
func TestState_Skip(t *testing.T) {
	t.Parallel()
	ids := []string{"i-2", "i-3", "i-4"}
	t.Run("embedded", func(t *testing.T) {
		w := skippedWorld(t, testenv.Embedded(t))
		w.skipped(t, func() { w.garbage(t, ids) })
	})
	t.Run("real", func(t *testing.T) {
		own, env := testenv.OwnKafka(t), testenv.Real(t)
		env.Kafka = own.Addr
		w := skippedWorld(t, env)
		damaged := func(id string) {
			own.Stop()
			damage(t, filepath.Join(own.Data, w.cfg.Kafka.Topics.Payoffs+"-0"), id)
			own.Start()
		}
		w.skipped(t, func() {
			w.publish(t, w.payoffs(ids)...)
			damaged(ids[0])
		})
		// And the last record that was taken in, which workers look at again.
		damaged("i-6")
		r := w.start(t)
		r.awaitUnready(t, "corrupt record batch")
		r.stop(t)
		done, err := w.stateTool(t).Skip(t.Context(), admin.SkipQuery{Topic: "payoffs", Offset: 6, Why: "a disk"})
		require.NoError(t, err)
		require.True(t, done.Taken)
		r = w.start(t)
		r.awaitReady(t)
		r.stop(t)
		w.lawful(t)
	})
}

// TestState_SkipUnknownContent: a payoff whose schema the registry does not give, while it answers for others, keeps its partition
// waiting. It can be skipped at once; while the registry answers for none it cannot.
func TestState_SkipUnknownContent(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() || strings.HasSuffix(r.URL.Path, "/7") {
			http.Error(w, "no answer", http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error_code":40403,"message":"Schema not found"}`))
	}))
	defer registry.Close()
	s := plain(testenv.Embedded(t), "policy: greedy")
	s.noSelections = true
	s.kafka = fmt.Sprintf("formats: {payoffs: avro}\n  schema_registry: {url: %q}", registry.URL)
	w := makeWorld(t, 1, s, s, nil)
	w.publish(t, w.impressions("i", 3)...)
	bad := w.payoff("i-1", "a", 0.5)
	bad.Value = []byte{0, 0, 0, 0, 7}
	w.publish(t, w.payoff("i-0", "a", 0.5), bad, w.payoff("i-2", "a", 0.5))
	r := w.start(t)
	r.awaitUnready(t, "does not give schema 7")
	r.stop(t)
	tool := w.stateTool(t)
	q := admin.SkipQuery{Topic: "payoffs", Offset: 1, Why: "nobody knows"}
	away.Store(true)
	short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, err := tool.Skip(short, q)
	require.ErrorContains(t, err, "does not give schema 7")
	away.Store(false)
	done, err := tool.Skip(t.Context(), q)
	require.NoError(t, err)
	require.Equal(t, []int64{1, 1}, []int64{done.From, done.Through})
	require.Contains(t, done.Fault, "no answer")
	letter := w.letters(t, w.cfg.Kafka.Topics.Payoffs, 1)[0]
	require.Equal(t, bad.Value, letter.Value)
	require.Contains(t, letter.Headers, kafka.Header{Key: "__streams.errors.exception", Value: []byte("skipped")})
	r = w.start(t)
	require.Eventually(t, func() bool { return w.counts(t)["payoffs.applied"] == 2 }, deadline, 20*time.Millisecond)
	r.stop(t)
	require.EqualValues(t, 1, w.counts(t)["payoffs.rejected"])
	w.lawful(t)
}

func skippedWorld(t *testing.T, env testenv.Env) *world {
	t.Helper()
	s := plain(env, "policy: greedy")
	s.noSelections = true
	return makeWorld(t, 1, s, s, nil)
}

// skipped is the test; spoil writes a batch of three payoffs that cannot be read.
func (w *world) skipped(t *testing.T, spoil func()) {
	t.Helper()
	w.publish(t, append(w.impressions("i", 10), w.payoffs([]string{"i-0", "i-1"})...)...)
	r := w.start(t)
	require.Eventually(t, func() bool { return w.counts(t)["payoffs.read"] == 2 && w.counts(t)["impressions.read"] == 10 }, deadline, 20*time.Millisecond)
	r.stop(t)
	spoil()
	w.publish(t, w.payoffs([]string{"i-5"})...)
	w.publish(t, w.payoffs([]string{"i-6"})...)
	r = w.start(t)
	r.awaitUnready(t, "corrupt record batch")
	tool := w.stateTool(t)
	q := admin.SkipQuery{Topic: "payoffs", Offset: 2, Why: "a disk"}
	past := q // refused in any case: while the worker joins again, the group has no member for a moment
	past.Offset = 0
	require.Eventually(t, func() bool {
		_, err := tool.Skip(t.Context(), past)
		return errors.Is(err, admin.ErrLive)
	}, deadline, 20*time.Millisecond)
	r.stop(t)
	for _, bad := range []admin.SkipQuery{{Topic: "payoffs", Offset: 2}, {Topic: "rankings", Offset: 2, Why: "x"}} {
		_, err := tool.Skip(t.Context(), bad)
		require.ErrorContains(t, err, map[string]string{"payoffs": "say why", "rankings": "no such input topic"}[bad.Topic])
	}
	for offset, refusal := range map[int64]error{0: admin.ErrReadPast, 1: admin.ErrReadable, 5: admin.ErrReadable, 7: admin.ErrReadable} {
		other := q
		other.Offset = offset
		_, err := tool.Skip(t.Context(), other)
		require.ErrorIs(t, err, refusal)
	}
	w.skips(t, tool, q)
	w.paid(t, 6)
	letters := w.letters(t, w.cfg.Kafka.Topics.Payoffs, 3)
	require.Contains(t, letters[0].Headers, kafka.Header{Key: "__streams.errors.exception", Value: []byte("skipped")})
	require.Contains(t, letters[0].Headers, kafka.Header{Key: "__streams.errors.message", Value: []byte("a disk")})
	require.Greater(t, len(letters[0].Value), broker.BatchHeaderSize)
	require.Empty(t, letters[1].Value)

	// A rebuild ends with the last decision: this one comes behind the payoffs.
	w.publish(t, w.impressions("last", 1)...)
	w.paid(t, 7)
	w.lose(t)
	_, err := tool.Rebuild(t.Context(), admin.RebuildQuery{})
	require.ErrorContains(t, err, "state skip --partition 0 --topic payoffs --offset 2")
	w.skips(t, tool, q)
	w.paid(t, 7)
}

// skips has offsets 2 to 4 skipped.
func (w *world) skips(t *testing.T, tool *admin.Tool, q admin.SkipQuery) {
	t.Helper()
	done, err := tool.Skip(t.Context(), q)
	require.NoError(t, err)
	require.Equal(t, []int64{2, 4}, []int64{done.From, done.Through})
	require.Contains(t, done.Fault, "corrupt record batch")
	h := w.inspect(t, tool, admin.InspectQuery{Partition: 0}).Partitions[0].History
	last := h[len(h)-1]
	require.Equal(t, []any{"skip", "a disk", w.cfg.Kafka.Topics.Payoffs, []int64{2, 5}}, []any{last.Done, last.Detail, last.Topic, last.Skipped})
}

// paid: a worker processes the later records, and leaves impressions pending.
func (w *world) paid(t *testing.T, pending int64) {
	t.Helper()
	r := w.start(t)
	require.Eventually(t, func() bool { return w.counts(t)["payoffs.read"] == 7 }, deadline, 20*time.Millisecond)
	require.Eventually(t, func() bool { return w.counts(t)["impressions.pending"] == pending }, deadline, 20*time.Millisecond)
	r.stop(t)
	got := w.counts(t)
	require.EqualValues(t, []int64{4, 3, 4, pending}, []int64{got["payoffs.applied"], got["payoffs.rejected"], got["impressions.paid"], got["impressions.pending"]})
	w.lawful(t)
}

// payoffs pay for impressions.
func (w *world) payoffs(ids []string) (all []kafka.Message) {
	for _, id := range ids {
		all = append(all, w.payoff(id, "a", 0.5))
	}
	return all
}

// garbage writes payoffs in a batch that does not unpack.
func (w *world) garbage(t *testing.T, ids []string) {
	t.Helper()
	var messages []task.OutMessage
	for _, m := range w.payoffs(ids) {
		messages = append(messages, task.OutMessage{Key: m.Key, Value: m.Value})
	}
	info := broker.BatchInfo{Producer: task.Producer{ID: -1, Epoch: -1}, Sequence: -1, Timestamp: time.Now().UnixMilli()}
	b, err := broker.AppendBatch(nil, &info, messages)
	require.NoError(t, err)
	b[22] |= byte(broker.Gzip) // which begins otherwise than records do
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	client, err := kgo.NewClient(kgo.SeedBrokers(w.access.Kafka.Brokers...), kgo.MaxVersions(kversion.V3_0_0())) // topics by name
	require.NoError(t, err)
	defer client.Close()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10_000
	topic, part := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	topic.Topic, part.Records = w.cfg.Kafka.Topics.Payoffs, b
	topic.Partitions = append(topic.Partitions, part)
	req.Topics = append(req.Topics, topic)
	res, err := req.RequestWith(t.Context(), client)
	require.NoError(t, err)
	require.Zero(t, res.Topics[0].Partitions[0].ErrorCode)
}

// damage changes a byte of a log that a broker keeps in a directory, where text stands in it.
func damage(t *testing.T, dir, text string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	b, err := os.ReadFile(files[0])
	require.NoError(t, err)
	at := bytes.Index(b, []byte(text))
	require.Positive(t, at)
	b[at] ^= 1
	require.NoError(t, os.WriteFile(files[0], b, 0o600))
}
