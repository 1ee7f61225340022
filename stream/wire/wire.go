// Package wire sends requests of kmsg over kafka-go's connections: kmsg encodes and decodes, kafka-go connects, negotiates versions and
// looks coordinators up. Its own Client hides control batches, the last offset of a batch, leader epochs and the negotiated versions.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/stream/task"
)

// ErrAnswer: an answer cannot be decoded, is too long, or is not about the request.
var ErrAnswer = errors.New("malformed answer from the broker")

// spoken holds the versions of each request that the callers fit, from the first to the last. Where kafka-go does not know a request,
// unknown is set: the Transport negotiates no version of it.
var spoken = map[kmsg.Key]struct {
	first, last int16
	unknown     bool
}{
	kmsg.Produce:              {first: 3, last: 8}, // up to 8, the batch is the end of the request
	kmsg.Fetch:                {first: 5, last: 11},
	kmsg.ListOffsets:          {first: 2, last: 5},
	kmsg.Metadata:             {first: 5, last: 8},
	kmsg.OffsetFetch:          {first: 2, last: 5},
	kmsg.Heartbeat:            {first: 0, last: 2},
	kmsg.DescribeGroups:       {first: 3, last: 4},
	kmsg.InitProducerID:       {first: 3, last: 4}, // below 3, brokers ignore the producer
	kmsg.AddPartitionsToTxn:   {first: 0, last: 3},
	kmsg.EndTxn:               {first: 0, last: 3},
	kmsg.DescribeConfigs:      {first: 1, last: 3},
	kmsg.WriteTxnMarkers:      {first: 0, last: 1, unknown: true},
	kmsg.DescribeQuorum:       {first: 1, last: 1, unknown: true}, // below 1, without times
	kmsg.DescribeTransactions: {first: 0, last: 0, unknown: true},
	kmsg.ListTransactions:     {first: 0, last: 0, unknown: true},
	kmsg.OffsetForLeaderEpoch: {first: 2, last: 3, unknown: true}, // below 2, leaders do not compare their own epoch
}

// Versions are a broker's versions, by request.
type Versions map[kmsg.Key]kmsg.ApiVersionsResponseApiKey

// ClientID names ranker-worker in brokers' logs and quotas.
const ClientID = "ranker-worker"

// AskVersions asks for the broker's versions, which needs no login.
func AskVersions(rw io.ReadWriter, clientID string) (Versions, error) {
	got, err := RoundTrip(rw, clientID, kmsg.NewPtrApiVersionsRequest())
	if err != nil {
		return nil, err
	}
	res := got.(*kmsg.ApiVersionsResponse)
	if res.ErrorCode != 0 {
		return nil, kafka.Error(res.ErrorCode)
	}
	all := make(Versions, len(res.ApiKeys))
	for _, k := range res.ApiKeys {
		all[kmsg.Key(k.ApiKey)] = k
	}
	return all, nil
}

// Common returns the last version of a request that both sides speak. It fails with task.ErrUnsupported if there is none.
func (v Versions) Common(key kmsg.Key) (int16, error) {
	ours := spoken[key]
	theirs, ok := v[key]
	if !ok || theirs.MaxVersion < ours.first || theirs.MinVersion > ours.last {
		return 0, fmt.Errorf("%w: a worker needs %s in a version from %d to %d, and the broker speaks %d to %d", task.ErrUnsupported,
			key.Name(), ours.first, ours.last, theirs.MinVersion, theirs.MaxVersion)
	}
	return min(theirs.MaxVersion, ours.last), nil
}

// correlationID serves all requests: a connection carries one at a time. It differs from the small numbers of the Transport's own requests.
const correlationID = 0x72616e6b

// maxAnswer bounds answers in bytes, except to Fetch.
const maxAnswer = 64 << 20

// usualRequest is the size of most requests in bytes, except Produce.
const usualRequest = 256

// Append appends a request in its version to b, which is empty.
func Append(b []byte, clientID string, req kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(b, req, correlationID)
}

// RoundTrip sends a request in its version, and reads the answer. It fails with ErrAnswer, or with the connection's error.
func RoundTrip(rw io.ReadWriter, clientID string, req kmsg.Request) (kmsg.Response, error) {
	return exchange(rw, Append(make([]byte, 0, usualRequest), clientID, req), req)
}

// exchange is RoundTrip for a request that is encoded already.
func exchange(rw io.ReadWriter, encoded []byte, req kmsg.Request) (kmsg.Response, error) {
	if _, err := rw.Write(encoded); err != nil {
		return nil, err
	}
	var head [8]byte
	if _, err := io.ReadFull(rw, head[:]); err != nil {
		return nil, err
	}
	name, limit := kmsg.Key(req.Key()).Name(), int64(maxAnswer)
	if fetch, ok := req.(*kmsg.FetchRequest); ok {
		limit = int64(fetch.MaxBytes)
	}
	if id := binary.BigEndian.Uint32(head[4:]); id != correlationID {
		return nil, fmt.Errorf("%w: correlation id %d", ErrAnswer, id)
	}
	size := int64(int32(binary.BigEndian.Uint32(head[:]))) - 4
	if size < 0 || size > limit {
		return nil, fmt.Errorf("%w: %d bytes to %s, expected at most %d", ErrAnswer, size, name, limit)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(rw, body); err != nil {
		return nil, err
	}
	if req.IsFlexible() {
		body = behindTags(body)
	}
	res := req.ResponseKind()
	if err := res.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrAnswer, name, err)
	}
	return res, nil
}

// behindTags skips an answer's tagged header fields; it returns nothing if they are cut off.
func behindTags(b []byte) []byte {
	number := func() uint64 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			b = nil
			return 0
		}
		b = b[n:]
		return v
	}
	for count := number(); count > 0 && len(b) > 0; count-- {
		number() // the tag
		b = b[min(number(), uint64(len(b))):]
	}
	return b
}

// Text returns a nullable string; empty for null.
func Text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
