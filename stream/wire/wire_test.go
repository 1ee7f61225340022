package wire

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/stream/task"
)

// conn answers with the bytes that it reads.
type conn struct {
	io.Reader
	bytes.Buffer // written
}

func (c *conn) Read(b []byte) (int, error) { return c.Reader.Read(b) }

func answering(s string) *conn { return &conn{Reader: strings.NewReader(s)} }

func heartbeat() *kmsg.HeartbeatRequest {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.Generation, req.MemberID = "g", 3, "m"
	return req
}

func TestAnswersThatMakeNoSense(t *testing.T) {
	for answer, want := range map[string]error{
		"\x00\x00\x00\x06rank\x00\x16": nil,
		"\x00\x00\x00\x06rant\x00\x00": ErrAnswer, // to another request
		"\x00\x00\x00\x05rank\x00":     ErrAnswer, // no error code
		"\x00\x00\x00\x03rank":         ErrAnswer,
		"\xff\xff\xff\xffrank":         ErrAnswer,
		"\x7f\xff\xff\xffrank":         ErrAnswer,
		"\x00\x00\x00\x06rank\x00":     io.ErrUnexpectedEOF,
		"":                             io.EOF,
	} {
		c := answering(answer)
		res, err := RoundTrip(c, "c", heartbeat())
		require.ErrorIs(t, err, want, "%q", answer)
		if want == nil {
			require.EqualValues(t, 22, res.(*kmsg.HeartbeatResponse).ErrorCode)
		}
		require.Equal(t, "\x00\x00\x00\x15\x00\x0c\x00\x00rank\x00\x01c\x00\x01g\x00\x00\x00\x03\x00\x01m", c.String())
	}
}

// An answer in a flexible version may have tags in its header.
func TestTagsAreSkipped(t *testing.T) {
	for tags, want := range map[string]error{
		"\x00":                             nil,
		"\x02\x00\x03abc\x01\x00":          nil,
		"\x01\x00\x7fabc":                  ErrAnswer,
		"\xff\xff\xff\xff\xff\xff\xff\xff": ErrAnswer,
	} {
		req := heartbeat()
		req.Version = 4
		body := "rank" + tags + "\x00\x00\x00\x00\x00\x16\x00"
		res, err := RoundTrip(answering("\x00\x00\x00"+string(byte(len(body)))+body), "c", req)
		require.ErrorIs(t, err, want, "%q", tags)
		if want == nil {
			require.EqualValues(t, 22, res.(*kmsg.HeartbeatResponse).ErrorCode)
		}
	}
}

// A broker that does not speak InitProducerID 3 would silently ignore producer and epoch: nothing is sent to it.
func TestOldBrokerIsUnsupported(t *testing.T) {
	for version, want := range map[int16]error{0: task.ErrUnsupported, 2: task.ErrUnsupported, 3: io.EOF, 4: io.EOF} {
		x := &Exchange{req: kmsg.NewPtrInitProducerIDRequest()}
		require.True(t, x.Required(map[protocol.ApiKey]int16{protocol.InitProducerId: version}))
		c := answering("")
		_, err := x.RawExchange(c)
		require.ErrorIs(t, err, want)
		require.Equal(t, version >= 3, c.Len() > 0)
	}
}

// Of a request that kafka-go does not know, the version is asked for on the same connection.
func TestUnknownRequestIsNegotiated(t *testing.T) {
	for _, c := range []struct {
		min, max, want int16
		err            error
	}{{0, 0, 0, io.EOF}, {0, 7, 1, io.EOF}, {2, 7, 0, task.ErrUnsupported}} {
		versions := kmsg.NewPtrApiVersionsResponse()
		versions.ApiKeys = []kmsg.ApiVersionsResponseApiKey{{ApiKey: int16(kmsg.WriteTxnMarkers), MinVersion: c.min, MaxVersion: c.max}}
		body := "rank" + string(versions.AppendTo(nil))
		x := &Exchange{req: kmsg.NewPtrWriteTxnMarkersRequest()}
		require.True(t, x.Required(map[protocol.ApiKey]int16{}))
		_, err := x.RawExchange(answering("\x00\x00\x00" + string(byte(len(body))) + body))
		require.ErrorIs(t, err, c.err)
		require.Equal(t, c.want, x.req.GetVersion())
	}
	_, err := Versions{}.Common(kmsg.DescribeQuorum)
	require.ErrorIs(t, err, task.ErrUnsupported)
}

// A request that is encoded before its version is known has the same bytes in all versions spoken, and the batch at its end.
func TestProduceIsEqualInAllVersions(t *testing.T) {
	req := kmsg.NewPtrProduceRequest()
	one := kmsg.NewProduceRequestTopicPartition()
	one.Partition, one.Records = 3, []byte("batch")
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: "t", Partitions: []kmsg.ProduceRequestTopicPartition{one}}}
	first := []byte(nil)
	for req.Version = spoken[kmsg.Produce].first; req.Version <= spoken[kmsg.Produce].last; req.Version++ {
		body := req.AppendTo(nil)
		if first == nil {
			first = body
		}
		require.Equal(t, first, body)
		require.True(t, bytes.HasSuffix(body, []byte("\x00\x00\x00\x05batch")))
	}
}
