package serve

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

// with has a place's services and workers go by another configuration.
func (p *place) with(change func(*config.Config)) *place {
	cfg := *p.cfg
	change(&cfg)
	return &place{cfg: &cfg}
}

// length is how many records stand in partition 0 of a topic.
func (p *place) length(t *testing.T, topic string) int64 {
	t.Helper()
	b, err := app.NewBroker(p.cfg)
	require.NoError(t, err)
	defer b.Close()
	res, err := b.Kafka().ListOffsets(t.Context(), &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: {kafka.LastOffsetOf(0)}}})
	require.NoError(t, err)
	require.Len(t, res.Topics[topic], 1)
	require.NoError(t, res.Topics[topic][0].Error)
	return res.Topics[topic][0].LastOffset
}

// TestWhiteSpaceInAnotherFormat: a request's record is read where the topics' format is another, by its first byte.
func TestWhiteSpaceInAnotherFormat(t *testing.T) {
	p := newPlace(t, testenv.Embedded(t), 1, patient, "").with(func(c *config.Config) {
		c.Kafka.Formats = config.Formats{Impressions: config.Protobuf, Selections: config.Protobuf, Payoffs: config.Protobuf}
	})
	p.work(t)
	r := p.open(t)
	require.False(t, r.rank(t, " \r\n\t"+fmt.Sprintf(impression, "i")+"\n ").Substitute)
	require.Equal(t, http.StatusAccepted, r.post(t, "/v1/selections", "\n[ "+`{"impression_id":"i","item":"a"}`+" ]").Status)
	require.Equal(t, http.StatusAccepted, r.post(t, "/v1/payoffs", " "+`{"impression_id":"i","payoff":1}`).Status)
	for _, prefix := range []string{"\x00\x00\x00\x00\x01", "\xef\xbb\xbf", "\x0c"} {
		a := r.post(t, "/v1/payoffs", prefix+`{"impression_id":"i","payoff":1}`)
		require.Equal(t, "malformed_json", a.problem(t).Errors[0].Reason, "%q", prefix)
	}
	require.False(t, r.rank(t, fmt.Sprintf(impression, "j")).Substitute)
	for _, topic := range []string{p.cfg.Kafka.Topics.Impressions, p.cfg.Kafka.Topics.Selections, p.cfg.Kafka.Topics.Payoffs} {
		r, err := readAll(t, p, topic)
		require.NoError(t, err)
		require.NotEmpty(t, r)
		for _, value := range r {
			require.Equal(t, "{}", value[:1]+value[len(value)-1:], "%s: %q", topic, value)
		}
	}
}

// readAll are the values in partition 0 of a topic.
func readAll(t *testing.T, p *place, topic string) (values []string, err error) {
	t.Helper()
	b, err := app.NewBroker(p.cfg)
	require.NoError(t, err)
	defer b.Close()
	bounds, err := b.Kafka().ListOffsets(t.Context(), &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: {kafka.FirstOffsetOf(0)}}})
	require.NoError(t, err)
	res, err := b.Kafka().Fetch(t.Context(), &kafka.FetchRequest{Topic: topic, Offset: bounds.Topics[topic][0].FirstOffset, MinBytes: 1, MaxBytes: 1 << 20,
		MaxWait: time.Second})
	require.NoError(t, err)
	first := bounds.Topics[topic][0].FirstOffset
	for {
		r, err := res.Records.ReadRecord()
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		require.NoError(t, err)
		if r.Offset < first { // of a batch that begins before it
			continue
		}
		var value []byte
		if r.Value != nil {
			value, err = kafka.ReadAll(r.Value)
			require.NoError(t, err)
		}
		values = append(values, string(value))
	}
}

// TestRefusedIsCorrected: an impression that the worker has refused takes nothing from the corrected one of the same id.
func TestRefusedIsCorrected(t *testing.T) {
	p := newPlace(t, testenv.Embedded(t), 1, "timeout: 50ms", "")
	p.with(func(c *config.Config) { c.Limits.MaxCandidates = 2 }).work(t)
	r := p.open(t)
	require.True(t, r.rank(t, fmt.Sprintf(impression, "i")).Substitute, "the worker takes two candidates at most")
	const corrected = `{"impression_id":"i","candidates":[{"item":"a","utility":0.1},{"item":"b","utility":0.7}]}`
	require.Eventually(t, func() bool { return !r.rank(t, corrected).Substitute }, deadline, 10*time.Millisecond)
	require.EqualValues(t, 2, p.length(t, p.cfg.Kafka.Topics.Impressions), "each is written once")
}

// TestAnotherLearner: an impression for another learner is not answered with the ranking of the first one of its id.
func TestAnotherLearner(t *testing.T) {
	p := newPlace(t, testenv.Embedded(t), 1, patient, "").with(func(c *config.Config) {
		other := c.Learners[0]
		other.Name, other.Default = "other", false
		c.Learners = append([]config.Learner{}, c.Learners[0], other)
		c.Learners[0].Default = true
	})
	p.work(t)
	r := p.open(t)
	of := func(learner string) string {
		return fmt.Sprintf(`{"impression_id":"i","learner":%q,"candidates":[{"item":"a","utility":0.1},{"item":"b","utility":0.7}]}`, learner)
	}
	first := r.rank(t, of("other"))
	require.Equal(t, "other", first.Learner)
	a := r.post(t, "/v1/rank", of("feed"))
	require.Equal(t, http.StatusConflict, a.Status, string(a.Body))
	require.Equal(t, "urn:ranker-worker:problem:other-learner", a.problem(t).Type)
	require.Contains(t, a.problem(t).Detail, `"other"`)
	require.Equal(t, first, r.rank(t, of("other")))
	require.Equal(t, first, r.rank(t, of("")), "it names none")
}

// TestOutsideOfAnExperiment: an impression without a user is outside of an experiment by user. It has the ranking of the control, which is
// none of another learner.
func TestOutsideOfAnExperiment(t *testing.T) {
	p := newPlace(t, testenv.Embedded(t), 1, patient, "").with(func(c *config.Config) {
		zero := 0.0
		other := c.Learners[0]
		other.Name, other.Default = "other", false
		c.Learners = append([]config.Learner{}, c.Learners[0], other)
		for i := range c.Learners {
			c.Learners[i].OnExpiry.Default = &zero
		}
		c.Experiments = []config.Experiment{{Name: "feed", By: config.ByUser, Period: 7 * 24 * time.Hour, Run: 1, Control: "other",
			Arms: []config.Arm{{Learner: "feed", Share: 0.5}, {Learner: "other", Share: 0.5}}}}
	})
	p.work(t)
	r := p.open(t)
	ranking := r.rank(t, `{"impression_id":"i","learner":"feed","candidates":[{"item":"a","utility":0.1},{"item":"b","utility":0.7}]}`)
	require.Equal(t, "other", ranking.Learner)
	require.False(t, ranking.Substitute)
}

// TestIdleConnections: connections over which no body comes keep nobody else out, though they announce the largest there may be.
func TestIdleConnections(t *testing.T) {
	p := newPlace(t, testenv.Embedded(t), 1, patient+", max_body_bytes: 4MiB, concurrency: 2", "")
	r := p.open(t)
	for range 70 {
		c, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		require.NoError(t, err)
		t.Cleanup(func() { c.Close() })
		_, err = fmt.Fprintf(c, "POST /v1/payoffs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"+
			"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n", 4<<20)
		require.NoError(t, err)
		require.NoError(t, c.SetReadDeadline(time.Now().Add(deadline)))
		line, err := bufio.NewReader(c).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "HTTP/1.1 100 Continue\r\n", line, "the body is waited for")
	}
	a := r.post(t, "/v1/payoffs", `{"impression_id":"i","payoff":1}`)
	require.Equal(t, http.StatusAccepted, a.Status, string(a.Body))
}

// TestWrittenOnce: a batch whose answer is lost with its connection is written again, and stands in its topic once.
func TestWrittenOnce(t *testing.T) {
	env := testenv.Embedded(t)
	p := newPlace(t, env, 1, patient, "")
	r := p.open(t)
	forwarded := make(chan error, 1)
	var requests atomic.Int32
	env.Fake.ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		env.Fake.KeepControl()
		if requests.Add(1) > 1 { // that which is forwarded, and all others
			return nil, nil, false
		}
		env.Fake.SleepControl(func() { forwarded <- forward(env.Kafka, req) })
		return nil, errors.New("the connection breaks"), true
	})
	a := r.post(t, "/v1/payoffs", `[{"impression_id":"i","payoff":1},{"impression_id":"j","payoff":1}]`)
	require.Equal(t, http.StatusAccepted, a.Status, string(a.Body))
	require.NoError(t, <-forwarded)
	require.EqualValues(t, 2, p.length(t, p.cfg.Kafka.Topics.Payoffs))
	require.Equal(t, http.StatusAccepted, r.post(t, "/v1/payoffs", `{"impression_id":"i","payoff":1}`).Status)
	require.EqualValues(t, 3, p.length(t, p.cfg.Kafka.Topics.Payoffs))
}

// forward sends a request over a connection of its own, and waits for the answer.
func forward(broker string, req kmsg.Request) error {
	c, err := net.Dial("tcp", broker)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(deadline)); err != nil {
		return err
	}
	if _, err := c.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, 1)); err != nil {
		return err
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return err
	}
	_, err = io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(size[:])))
	return err
}

// TestMirroredRankings: a ranking of our group that none of its workers has written is passed over, as a worker does. So it is by a server
// that begins to read behind the marker of the fence.
func TestMirroredRankings(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		p := newPlace(t, env, 1, "timeout: 10s", "")
		p.work(t)
		r := p.open(t)
		genuine := r.rank(t, fmt.Sprintf(impression, "genuine"))
		topic := p.cfg.Kafka.Topics.Rankings
		values, err := readAll(t, p, topic)
		require.NoError(t, err)
		copied := strings.Replace(values[len(values)-1], `"genuine"`, `"copied"`, 1)
		require.NotEqual(t, values[len(values)-1], copied)
		end := p.length(t, topic)
		mirror := func(key string, value kafka.Bytes) {
			b, err := app.NewBroker(p.cfg)
			require.NoError(t, err)
			defer b.Close()
			res, err := b.Kafka().Produce(t.Context(), &kafka.ProduceRequest{Topic: topic, RequiredAcks: kafka.RequireAll,
				Records: kafka.NewRecordReader(kafka.Record{Time: time.Now(), Key: kafka.NewBytes([]byte(key)), Value: value})})
			require.NoError(t, err)
			require.NoError(t, res.Error)
		}
		mirror("copied", kafka.NewBytes([]byte(copied)))
		mirror("nothing", nil)
		after := r.rank(t, fmt.Sprintf(impression, "behind")) // the service has read the copy once this is answered
		require.False(t, after.Substitute)
		require.Equal(t, http.StatusNotFound, r.do(t, http.MethodGet, "/v1/rankings/copied", "").Status)
		r.stop()

		request := kmsg.NewPtrDeleteRecordsRequest()
		request.Version, request.TimeoutMillis = 1, 10_000
		request.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: end - 1}}}}
		require.NoError(t, forward(env.Kafka, request))
		require.Eventually(t, func() bool { values, err = readAll(t, p, topic); return err == nil && len(values) == 4 }, deadline, 10*time.Millisecond)
		r = p.open(t)
		require.Equal(t, genuine, r.do(t, http.MethodGet, "/v1/rankings/genuine", "").ranked(t))
		real := r.rank(t, fmt.Sprintf(impression, "copied"))
		require.False(t, real.Substitute)
		require.EqualValues(t, 2, real.Decision.Offset, "the impression is written")
	})
}

// TestSearchesHoldUpNobody: many slow searches for old rankings take nothing from an impression that was ranked long ago.
func TestSearchesHoldUpNobody(t *testing.T) {
	env := testenv.Embedded(t)
	p := newPlace(t, env, 1, "timeout: 10s, remember: 1MiB", "")
	p.work(t)
	r := p.open(t)
	at := time.Now().UTC().Format(time.RFC3339Nano)
	stamped := fmt.Sprintf(`{"impression_id":"first","time":%q,"candidates":[{"item":"a","utility":0.1},{"item":"b","utility":0.7}]}`, at)
	first := r.rank(t, stamped)
	r.fill(t)
	const long = "2001-01-01T00:00:00Z"
	asked, release := make(chan struct{}, 8), make(chan struct{})
	env.Fake.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		env.Fake.KeepControl()
		if stamp := req.(*kmsg.ListOffsetsRequest).Topics[0].Partitions[0].Timestamp; stamp > 0 && stamp < 1e12 {
			asked <- struct{}{}
			env.Fake.SleepControl(func() { <-release })
		}
		return nil, nil, false
	})
	answers := make(chan int, 8)
	for range 8 {
		go func() { answers <- r.do(t, http.MethodGet, "/v1/rankings/nobody?time="+long, "").Status }()
	}
	for range 4 {
		require.Equal(t, http.StatusServiceUnavailable, <-answers, "so many are under way")
		<-asked
	}
	require.Equal(t, first, r.rank(t, stamped))
	close(release)
	for range 4 {
		require.Equal(t, http.StatusNotFound, <-answers)
	}
}
