package dlq_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/dlq"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// post is a box with its topics, of two partitions each.
type post struct {
	t      *testing.T
	box    *dlq.Box
	client *kafka.Client
	group  string
}

func open(t *testing.T, env testenv.Env) *post {
	t.Helper()
	group := testenv.Unique(t, "g")
	file := filepath.Join(t.TempDir(), "worker.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `kafka: {brokers: [%q], group: %s, topics: {impressions: %[2]s-i, selections: %[2]s-s, payoffs: %[2]s-p, rankings: %[2]s-r}}
redis: {url: %q}
learners: {feed: {payoffs: stochastic}}
`, env.Kafka, group, env.RedisURL()), 0o600))
	cfg, _, err := config.LoadFile(file, os.LookupEnv)
	require.NoError(t, err)
	var topics []string
	for _, name := range []string{"-i", "-s", "-p"} {
		topics = append(topics, group+name, group+name+".dlq")
	}
	testenv.Topics(t, env.Kafka, 2, append(topics, group+"-r")...)
	box, err := dlq.Open(cfg)
	require.NoError(t, err)
	t.Cleanup(box.Close)
	transport := new(kafka.Transport) // the shared one's memory of topics is older than ours
	t.Cleanup(transport.CloseIdleConnections)
	return &post{t, box, &kafka.Client{Addr: kafka.TCP(env.Kafka), Transport: transport}, group}
}

func (p *post) write(topic string, partition int, r kafka.Record) (offset int64) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	res, err := p.client.Produce(ctx, &kafka.ProduceRequest{Topic: p.group + topic, Partition: partition, RequiredAcks: kafka.RequireAll,
		Records: kafka.NewRecordReader(r)})
	require.NoError(p.t, err)
	require.NoError(p.t, res.Error)
	return res.BaseOffset
}

// refuse writes a record, and its dead letter as a worker does.
func (p *post) refuse(topic string, partition int, reason string, at time.Time, key, value []byte) (offset int64) {
	offset = p.write(topic, partition, kafka.Record{Time: at, Key: some(key), Value: some(value)})
	p.refused(topic, partition, offset, reason, at, key, value)
	return offset
}

// refused writes the dead letter of a record.
func (p *post) refused(topic string, partition int, offset int64, reason string, at time.Time, key, value []byte, more ...kafka.Header) {
	headers := []kafka.Header{{Key: "__streams.errors.exception", Value: []byte(reason)}, {Key: "__streams.errors.message", Value: []byte("why")},
		{Key: "__streams.errors.topic", Value: []byte(p.group + topic)}, {Key: "__streams.errors.partition", Value: []byte(strconv.Itoa(partition))},
		{Key: "__streams.errors.offset", Value: []byte(strconv.FormatInt(offset, 10))}}
	p.write(topic+".dlq", partition, kafka.Record{Time: at, Key: some(key), Value: some(value), Headers: append(headers, more...)})
}

func some(b []byte) kafka.Bytes {
	if b == nil {
		return nil
	}
	return kafka.NewBytes(b)
}

// reads gives the records of a partition of a topic, by the box of a group whose dead letters these are not.
func (p *post) reads(topic string, partition int) (all []kafka.Message) {
	p.t.Helper()
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{p.client.Addr.String()}, Topic: p.group + topic, Partition: partition, MaxWait: 50 * time.Millisecond})
	defer r.Close()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	end, err := p.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{p.group + topic: {kafka.LastOffsetOf(partition)}}})
	require.NoError(p.t, err)
	for int64(len(all)) < end.Topics[p.group+topic][0].LastOffset {
		m, err := r.ReadMessage(ctx)
		require.NoError(p.t, err)
		all = append(all, m)
	}
	return all
}

func (p *post) tail(last int, topics ...string) (all []dlq.Letter) {
	p.t.Helper()
	require.NoError(p.t, p.box.Tail(p.t.Context(), topics, last, false, func(l *dlq.Letter) error {
		all = append(all, *l)
		return nil
	}))
	return all
}

func quiet(string) {}

var all = dlq.Query{Last: -1, Partition: -1}

func (p *post) replay(q dlq.Query) *dlq.Replayed {
	p.t.Helper()
	r, err := p.box.Replay(p.t.Context(), q, quiet)
	require.NoError(p.t, err)
	return r
}

// TestTailAndFind: the last letters of all topics in the order of their times, and each by its own place or that of its record. All that is
// no dead letter is passed over.
func TestTailAndFind(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		p := open(t, env)
		require.Empty(t, p.tail(10))
		began := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
		for i := range 6 {
			p.refuse([]string{"-i", "-p"}[i%2], i/2%2, "wrong_type", began.Add(time.Duration(i)*time.Second), []byte("k"), fmt.Append(nil, i))
			p.write("-i.dlq", i%2, kafka.Record{Value: kafka.NewBytes([]byte("no letter"))})
		}
		values := func(all []dlq.Letter) (text string) {
			for _, l := range all {
				text += string(l.Value)
			}
			return text
		}
		require.Equal(t, "012345", values(p.tail(10)))
		require.Equal(t, "345", values(p.tail(3)))
		require.Equal(t, "135", values(p.tail(10, "payoffs")))
		one := p.tail(1)[0]
		require.Equal(t, dlq.At{Topic: p.group + "-p", Partition: 0, Offset: 1}, one.Of)
		require.Equal(t, "wrong_type", one.Reason)
		require.Equal(t, "why", one.Detail)
		require.Equal(t, began.Add(5*time.Second).UnixMilli(), one.Time.UnixMilli())
		for _, at := range []dlq.At{one.Of, one.Letter, {Topic: "payoffs", Partition: 0, Offset: 1}} {
			found, err := p.box.Find(t.Context(), at)
			require.NoError(t, err)
			require.Equal(t, one.Letter, found.Letter)
		}
		for _, at := range []dlq.At{{Topic: "payoffs", Offset: 77}, {Topic: "payoffs", Partition: 9}, {Topic: p.group + "-i.dlq", Offset: 1}} {
			_, err := p.box.Find(t.Context(), at)
			require.ErrorIs(t, err, dlq.ErrNone)
		}
		_, err := p.box.Find(t.Context(), dlq.At{Topic: "others"})
		require.ErrorContains(t, err, "no such topic")
		stamped, of, found, err := p.box.Original(t.Context(), &one)
		require.NoError(t, err)
		require.True(t, found)
		require.Empty(t, of)
		require.Equal(t, one.Time.UnixMilli(), stamped.UnixMilli())
	})
}

// TestTail_NothingYet: a broker's empty answer is the end of the letters only if nothing more can be read. A marker may stand there.
func TestTail_NothingYet(t *testing.T) {
	env := testenv.Embedded(t)
	p := open(t, env)
	for _, v := range []string{"a", "b"} {
		p.refuse("-s", 1, "wrong_type", time.Now(), nil, []byte(v))
	}
	k, err := kgo.NewClient(kgo.SeedBrokers(env.Kafka), kgo.TransactionalID(p.group), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer k.Close()
	require.NoError(t, k.BeginTransaction())
	require.NoError(t, k.ProduceSync(t.Context(), &kgo.Record{Topic: p.group + "-s.dlq", Partition: 1}).FirstErr())
	require.NoError(t, k.EndTransaction(t.Context(), kgo.TryCommit))
	const end = 4
	asked := map[int64]int{}
	env.Fake.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		env.Fake.KeepControl()
		r := req.(*kmsg.FetchRequest)
		topic := r.Topics[0]
		if topic.Topic != p.group+"-s.dlq" || topic.Partitions[0].Partition != 1 {
			return nil, nil, false
		}
		offset := topic.Partitions[0].FetchOffset
		if asked[offset]++; asked[offset] > 1 {
			return nil, nil, false
		}
		one := kmsg.NewFetchResponseTopicPartition()
		one.Partition, one.HighWatermark, one.LastStableOffset = 1, end, end
		res := r.ResponseKind().(*kmsg.FetchResponse)
		res.Topics = []kmsg.FetchResponseTopic{{Topic: topic.Topic, Partitions: []kmsg.FetchResponseTopicPartition{one}}}
		return res, nil, true
	})
	got := p.tail(9, "selections")
	require.Len(t, got, 2)
	require.Equal(t, "b", string(got[1].Value))
}

// TestTailFollows new letters, until it is ended.
func TestTailFollows(t *testing.T) {
	p := open(t, testenv.Embedded(t))
	ctx, cancel := context.WithCancel(t.Context())
	got, ended := make(chan string, 9), make(chan error, 1)
	go func() {
		ended <- p.box.Tail(ctx, nil, 1, true, func(l *dlq.Letter) error {
			got <- string(l.Value)
			return nil
		})
	}()
	p.refuse("-s", 1, "wrong_type", time.Now(), nil, []byte("a"))
	require.Equal(t, "a", <-got)
	p.refuse("-i", 0, "wrong_type", time.Now(), nil, []byte("b"))
	require.Equal(t, "b", <-got)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// TestThrottled: over a quota the broker answers without topics. Reads wait its pause out, however long.
func TestThrottled(t *testing.T) {
	env := testenv.Embedded(t)
	p := open(t, env)
	at := p.refuse("-i", 1, "wrong_type", time.Now(), []byte("k"), []byte("one"))
	throttle := env.Throttled(300 * time.Millisecond)
	throttle.Store(1)
	l, err := p.box.Find(t.Context(), dlq.At{Topic: p.group + "-i", Partition: 1, Offset: at})
	require.NoError(t, err)
	throttle.Store(1)
	_, _, _, err = p.box.Original(t.Context(), l)
	pause, ok := errors.AsType[task.Throttled](err)
	require.True(t, ok, err)
	require.EqualValues(t, 300*time.Millisecond, pause)
}

// TestReplay sends each once, unchanged, and reports the skipped ones.
func TestReplay(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		p := open(t, env)
		now := time.Now()
		first := p.refuse("-i", 1, "unknown_learner", now.Add(-time.Hour), []byte("k1"), []byte("one"))
		p.refused("-i", 1, first, "unknown_learner", now.Add(-time.Hour), []byte("k1"), []byte("one")) // at least once
		p.refuse("-i", 0, "unknown_learner", now.Add(-time.Minute), nil, nil)
		p.refuse("-p", 0, "wrong_type", now, []byte("k2"), []byte("two"))
		p.refused("-p", 1, 5, "record_too_large", now, []byte("k3"), []byte("cu"), kafka.Header{Key: "ranker.truncated.from", Value: []byte("9")})

		dry := p.replay(all)
		require.Equal(t, &dlq.Replayed{Sent: 3, ByReason: map[string]int{"unknown_learner": 2, "wrong_type": 1}, Cut: 1, Duplicate: 1}, dry)
		require.Len(t, p.reads("-i", 1), 1, "nothing was sent")

		q := all
		q.Reasons, q.Do = []string{"unknown_learner"}, true
		require.Equal(t, 2, p.replay(q).Sent)
		sent := p.reads("-i", 1)
		require.Len(t, sent, 2)
		require.Equal(t, []string{"k1", "one"}, []string{string(sent[1].Key), string(sent[1].Value)})
		require.Equal(t, []kafka.Header{{Key: "ranker.replay.of", Value: fmt.Appendf(nil, "%s-i.dlq/1/0", p.group)}}, sent[1].Headers)
		null := p.reads("-i", 0)[1]
		require.True(t, null.Key == nil && null.Value == nil, null)
		require.Len(t, p.reads("-p", 0), 1, "another reason")

		again := p.replay(q)
		require.Equal(t, []int{0, 2}, []int{again.Sent, again.Before}, "it is known what was sent")

		p.refused("-i", 1, sent[1].Offset, "unknown_learner", now, []byte("k1"), []byte("one"))
		r := p.replay(q)
		require.Equal(t, []int{0, 2, 1}, []int{r.Sent, r.Before, r.Refused}, "it was refused once more")
		q.Again = true
		require.Equal(t, 1, p.replay(q).Sent)
		require.Equal(t, 0, p.replay(q).Sent)
	})
}

// TestReplay_RecordsOfOneOffset: a topic was made again beside its dead letters, so two records have an offset in common.
func TestReplay_RecordsOfOneOffset(t *testing.T) {
	p := open(t, testenv.Embedded(t))
	hourAgo := time.Now().Add(-time.Hour)
	p.refused("-i", 1, 0, "unknown_learner", hourAgo, []byte("k"), []byte("of the topic before"))
	p.refused("-i", 1, 1, "unknown_learner", hourAgo, []byte("k"), []byte("also"))
	p.refuse("-i", 1, "unknown_learner", hourAgo, []byte("k"), []byte("one"))
	q := all
	q.Do, q.Last = true, 0
	require.Equal(t, &dlq.Replayed{Sent: 2, ByReason: map[string]int{"unknown_learner": 2}, Done: true}, p.replay(q))
	again := p.replay(all)
	require.Equal(t, []int{1, 2, 0}, []int{again.Sent, again.Before, again.Refused}, "only records that were sent again stand at offset 1")
}

// TestReplay_ForgedHeader: a header that another producer has written keeps no dead letter from being sent again.
func TestReplay_ForgedHeader(t *testing.T) {
	p := open(t, testenv.Embedded(t))
	p.refuse("-i", 1, "unknown_learner", time.Now().Add(-time.Hour), []byte("k"), []byte("one"))
	forged := []kafka.Header{{Key: "ranker.replay.of", Value: fmt.Appendf(nil, "%s-i.dlq/1/0", p.group)}}
	p.write("-i", 1, kafka.Record{Key: some([]byte("k")), Value: some([]byte("other")), Headers: forged})
	p.write("-i", 1, kafka.Record{Key: some([]byte("j")), Value: some([]byte("one")), Headers: forged})
	faulty := p.write("-i", 1, kafka.Record{Key: some([]byte("f")), Value: some([]byte("faulty")), Headers: forged})
	p.refused("-i", 1, faulty, "wrong_type", time.Now(), []byte("f"), []byte("faulty"))
	q := all
	q.Do = true
	require.Equal(t, &dlq.Replayed{Sent: 2, ByReason: map[string]int{"unknown_learner": 1, "wrong_type": 1}, Done: true}, p.replay(q))
	again := p.replay(q)
	require.Equal(t, []int{0, 2}, []int{again.Sent, again.Before})
}

// TestReplayTakesWhatIsAskedFor by time, offset, partition and topic, and sends by key if it is to.
func TestReplayTakesWhatIsAskedFor(t *testing.T) {
	p := open(t, testenv.Embedded(t))
	now := time.Now()
	for i := range 6 {
		p.refuse("-i", i%2, "wrong_type", now.Add(time.Duration(i-6)*time.Minute), fmt.Append(nil, i), []byte("{}"))
	}
	for name, c := range map[string]struct {
		change func(q *dlq.Query)
		sent   int
	}{
		"from":      {func(q *dlq.Query) { q.From = now.Add(-150 * time.Second) }, 2},
		"to":        {func(q *dlq.Query) { q.To = now.Add(-330 * time.Second) }, 1},
		"offsets":   {func(q *dlq.Query) { q.First, q.Last = 1, 1 }, 2},
		"partition": {func(q *dlq.Query) { q.Partition = 1 }, 3},
		"topic":     {func(q *dlq.Query) { q.Topics = []string{"payoffs"} }, 0},
	} {
		q := all
		c.change(&q)
		require.Equal(t, c.sent, p.replay(q).Sent, name)
	}
	q := all
	q.ByKey, q.Do = true, true
	require.Equal(t, 6, p.replay(q).Sent)
	require.Equal(t, 6, p.replay(q).Before)
	for number := range 2 {
		for _, m := range p.reads("-i", number)[3:] {
			require.Equal(t, number, kafka.Murmur2Balancer{}.Balance(kafka.Message{Key: m.Key}, 0, 1))
		}
	}
}

// sendsOnce requires that a replay sends one record, and that a later one finds it sent.
func (p *post) sendsOnce(q, later dlq.Query) {
	p.t.Helper()
	q.Do, later.Do = true, true
	require.Equal(p.t, 1, p.replay(q).Sent)
	r := p.replay(later)
	require.Equal(p.t, []int{0, 1}, []int{r.Sent, r.Before})
}

// TestReplay_OfOneRecordRefusedTwice: a filter that leaves out its first dead letter does not have it sent once more. A copy in another
// partition has the time of the first refusal.
func TestReplay_OfOneRecordRefusedTwice(t *testing.T) {
	for _, byKey := range []bool{false, true} {
		p := open(t, testenv.Embedded(t))
		early, key := time.Now().Add(-3*time.Hour), []byte("i")
		other := 1 - kafka.Murmur2Balancer{}.Balance(kafka.Message{Key: key}, 0, 1)
		offset := p.refuse("-p", other, "wrong_type", early, key, []byte("v"))
		p.refused("-p", other, offset, "unknown_learner", early.Add(time.Hour), key, []byte("v"))
		q := all
		q.ByKey = byKey
		later := q
		later.From = early.Add(time.Minute)
		p.sendsOnce(q, later)
	}
}

// TestReplay_BehindAnOpenTransaction: records that were sent again are found before the transaction has ended.
func TestReplay_BehindAnOpenTransaction(t *testing.T) {
	p := open(t, testenv.Embedded(t))
	p.refuse("-p", 0, "wrong_type", time.Now(), []byte("i"), []byte("v"))
	upstream, err := kgo.NewClient(kgo.SeedBrokers(p.client.Addr.String()), kgo.TransactionalID(p.group+"-upstream"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer upstream.Close()
	require.NoError(t, upstream.BeginTransaction())
	require.NoError(t, upstream.ProduceSync(t.Context(), &kgo.Record{Topic: p.group + "-p", Value: []byte("open")}).FirstErr())
	p.sendsOnce(all, all)
	require.NoError(t, upstream.EndTransaction(t.Context(), kgo.TryAbort))
}

// TestReplay_OfManyRecordsAtOnce: a topic may take fewer than a request has.
func TestReplay_OfManyRecordsAtOnce(t *testing.T) {
	env := testenv.Embedded(t)
	p := open(t, env)
	for k := range 40 {
		p.refuse("-p", 0, "wrong_type", time.Now(), []byte("i"), bytes.Repeat([]byte{byte('a' + k%26)}, 1000+k))
	}
	env.Fake.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		env.Fake.KeepControl()
		r := req.(*kmsg.ProduceRequest)
		if one := &r.Topics[0].Partitions[0]; len(one.Records) > 10_000 {
			res := r.ResponseKind().(*kmsg.ProduceResponse)
			topic, partition := kmsg.NewProduceResponseTopic(), kmsg.NewProduceResponseTopicPartition()
			topic.Topic, partition.Partition, partition.ErrorCode = r.Topics[0].Topic, one.Partition, int16(kafka.MessageSizeTooLarge)
			topic.Partitions = append(topic.Partitions, partition)
			res.Topics = append(res.Topics, topic)
			return res, nil, true
		}
		return nil, nil, false
	})
	q := all
	q.Do = true
	require.Equal(t, 40, p.replay(q).Sent)
	sent := p.reads("-p", 0)[40:]
	require.Len(t, sent, 40)
	for k := range sent {
		require.Len(t, sent[k].Value, 1000+k, "in order")
	}
}

func TestHint(t *testing.T) {
	for _, c := range []struct {
		key, value []byte
		want       string
	}{
		{nil, nil, "tombstone"},
		{nil, []byte{}, "empty"},
		{nil, []byte("\x00\x00\x00\x01\x02\x0cabc"), "the number of a schema (258)"},
		{nil, []byte("\x00\x00\x00\x01\x02\x0cabc"), "kafka.formats"},
		{nil, []byte("\x00\x00\x00\x00\x07{}"), ""},
		{nil, []byte("\x1f\x8b\x08"), "gzipped"},
		{nil, []byte("\xef\xbb\xbf{}"), "byte order mark"},
		{nil, []byte("\xff\xfe{\x00"), "UTF-16"},
		{nil, []byte(`"{\"impression_id\":\"a\"}"`), "encoded twice"},
		{nil, []byte("\xc0\xc1"), "no UTF-8"},
		{nil, []byte(`{"time":1732183200}`), `of seconds since 1970: write it as RFC 3339, which would be "2024-11-21T10:00:00.000Z"`},
		{nil, []byte(`{"time":"1732183200123"}`), `of milliseconds since 1970: write it as RFC 3339, which would be "2024-11-21T10:00:00.123Z"`},
		{nil, []byte(`{"time":1732183200123000}`), "microseconds"},
		{nil, []byte(`{"time":1732183200123000000}`), "nanoseconds"},
		{nil, []byte(`{"impression_id":"a"}`), "no key"},
		{[]byte(`"a"`), []byte(`{"impression_id":"a"}`), "quotation marks"},
		{[]byte("\x00\x00\x00\x00\x01a"), []byte(`{"impression_id":"a"}`), "string serializer for keys"},
		{[]byte("a"), []byte(`{"impression_id":"a"}`), ""},
		{[]byte("b"), []byte(`{"impression_id":"a"}`), ""},
		{nil, []byte("{"), ""},
	} {
		got := dlq.Hint(&dlq.Letter{Reason: "malformed_json", Key: c.key, Value: c.value})
		if c.want == "" {
			require.Empty(t, got)
			continue
		}
		require.Contains(t, got, c.want, "%q", bytes.TrimSpace(c.value))
	}
	for _, sound := range []string{"\x00\x00\x00\x01\x02\x0cabc", "\x0a\x03i-1\x11\x00\x00\x00\x00\x00\x00\xf0\xbf"} { // in Avro, and in Protobuf
		require.Empty(t, dlq.Hint(&dlq.Letter{Reason: "item_not_selected", Value: []byte(sound)}))
	}
	require.Contains(t, dlq.TimestampHint(time.UnixMilli(1732183200)), "seconds where Kafka takes milliseconds")
	require.Empty(t, dlq.TimestampHint(time.Now()))
}

// TestReplay_PartitionIsGone: a record of a partition that its topic does not have goes to that of its key, and holds back no other.
func TestReplay_PartitionIsGone(t *testing.T) {
	p := open(t, testenv.Embedded(t))
	at := time.Now()
	letter := func(partition string, key []byte, value string) {
		p.write("-p.dlq", 0, kafka.Record{Time: at, Key: some(key), Value: some([]byte(value)), Headers: []kafka.Header{
			{Key: "__streams.errors.exception", Value: []byte("wrong_type")}, {Key: "__streams.errors.topic", Value: []byte(p.group + "-p")},
			{Key: "__streams.errors.partition", Value: []byte(partition)}, {Key: "__streams.errors.offset", Value: []byte("5")}}})
	}
	letter("7", []byte("i-1"), "a")
	letter("-1", nil, "b")
	p.refused("-p", 1, 0, "wrong_type", at, []byte("i-2"), []byte("c"))
	q := all
	q.Do = true
	require.Equal(t, 3, p.replay(q).Sent)
	require.Len(t, append(p.reads("-p", 0), p.reads("-p", 1)...), 3)
	require.Equal(t, 3, p.replay(q).Before)
}
