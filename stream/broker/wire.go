package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/segmentio/kafka-go/protocol"

	"github.com/ranker-worker/ranker-worker/stream/task"
)

var errAnswer = errors.New("malformed answer from the broker")

// api is one of Kafka's requests, in the versions that this package speaks.
type api struct {
	key      protocol.ApiKey
	min, max int16
	flexible int16 // first version with tagged fields
}

const neverFlexible = 1 << 14

var (
	apiProduce      = api{protocol.Produce, 3, 8, neverFlexible}
	apiFetch        = api{protocol.Fetch, 5, 11, neverFlexible}
	apiListOffsets  = api{protocol.ListOffsets, 2, 5, neverFlexible}
	apiMetadata     = api{protocol.Metadata, 5, 8, neverFlexible}
	apiInitProducer = api{protocol.InitProducerId, 3, 4, 2}
	apiWriteMarkers = api{protocol.WriteTxnMarkers, 0, 1, 1}

	apiDescribeGroups = api{protocol.DescribeGroups, 3, 4, neverFlexible}
	apiDescribeQuorum = api{55, 0, 1, 0} // kafka-go has no name for it
	apiDescribeTxns   = api{65, 0, 0, 0} // likewise
)

// exchange is a request that writes itself to one of the Transport's connections and reads its own answer (protocol.RawExchanger). The
// Transport runs it in the connection's goroutine, which may outlive the call: until the exchange is over, encode uses nothing that the
// caller touches.
type exchange struct {
	api
	clientID string
	limit    int // of the answer, in bytes
	version  int16
	fixed    *int16 // the version, if the Transport does not negotiate it
	// encode appends the body for a version to the header, or replaces both by a complete request.
	encode func(version int16, header []byte) []byte
}

type answer struct {
	key     protocol.ApiKey
	version int16
	body    []byte
}

func (x *exchange) ApiKey() protocol.ApiKey { return x.key }
func (a *answer) ApiKey() protocol.ApiKey   { return a.key }

// Required selects the version negotiated on this connection.
func (x *exchange) Required(versions map[protocol.ApiKey]int16) bool {
	if x.version = min(versions[x.key], x.max); x.fixed != nil {
		x.version = *x.fixed
	}
	return true
}

func (x *exchange) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if x.version < x.min {
		return nil, fmt.Errorf("%w: the broker speaks %v only up to version %d, and %d is needed", task.ErrUnsupported,
			x.key, x.version, x.min)
	}
	req := x.encode(x.version, x.header())
	be := binary.BigEndian
	be.PutUint32(req[0:], uint32(len(req)-4))
	be.PutUint16(req[6:], uint16(x.version))
	be.PutUint32(req[8:], correlationID)
	if _, err := rw.Write(req); err != nil {
		return nil, err
	}
	var head [8]byte
	if _, err := io.ReadFull(rw, head[:]); err != nil {
		return nil, err
	}
	size := int64(int32(be.Uint32(head[:]))) - 4
	if id := be.Uint32(head[4:]); id != correlationID {
		return nil, fmt.Errorf("%w: correlation id %d", errAnswer, id)
	}
	if size < 0 || size > int64(x.limit) {
		return nil, fmt.Errorf("%w: %d bytes to %v, expected at most %d", errAnswer, size, x.key, x.limit)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(rw, body); err != nil {
		return nil, err
	}
	if x.version >= x.flexible {
		r := reader{b: body}
		r.tags()
		if r.bad {
			return nil, fmt.Errorf("%w: header of %v", errAnswer, x.key)
		}
		body = r.b
	}
	return &answer{key: x.key, version: x.version, body: body}, nil
}

// correlationID serves all requests: a connection carries one at a time. It differs from the small numbers of the Transport's own requests.
const correlationID = 0x72616e6b

// header returns the request's header, without size and version.
func (x *exchange) header() []byte {
	return appendHeader(make([]byte, 0, 256), x.key, x.clientID, x.version >= x.flexible)
}

func appendHeader(b []byte, key protocol.ApiKey, clientID string, flexible bool) []byte {
	b = append(b, 0, 0, 0, 0)
	b = appendInt16(b, int16(key))
	b = append(b, 0, 0, 0, 0, 0, 0)
	b = appendString(b, clientID)
	if flexible {
		b = append(b, 0)
	}
	return b
}

func appendInt16(b []byte, v int16) []byte { return binary.BigEndian.AppendUint16(b, uint16(v)) }
func appendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }
func appendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

func appendString(b []byte, s string) []byte {
	b = appendInt16(b, int16(len(s)))
	return append(b, s...)
}

// brokerExchange goes to one broker, regardless of leaders.
type brokerExchange struct {
	*exchange
	broker int32
}

func (x brokerExchange) Broker(protocol.Cluster) (protocol.Broker, error) {
	return protocol.Broker{ID: x.broker}, nil
}

// txnExchange goes to the coordinator of a transactional id, which the Transport looks up.
type txnExchange struct {
	*exchange
	transactionalID string
}

func (x txnExchange) Transaction() string { return x.transactionalID }

var (
	_ protocol.RawExchanger         = (*exchange)(nil)
	_ protocol.BrokerMessage        = brokerExchange{}
	_ protocol.TransactionalMessage = txnExchange{}
)

// reader reads an answer. After the first fault, bad is set and all results are zero. It allocates no more than the bytes prove.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad || n < 0 || n > len(r.b) {
		r.bad = true
		return nil
	}
	t := r.b[:n:n]
	r.b = r.b[n:]
	return t
}

func (r *reader) int8() int8 {
	if t := r.take(1); t != nil {
		return int8(t[0])
	}
	return 0
}

func (r *reader) int16() int16 {
	if t := r.take(2); t != nil {
		return int16(binary.BigEndian.Uint16(t))
	}
	return 0
}

func (r *reader) int32() int32 {
	if t := r.take(4); t != nil {
		return int32(binary.BigEndian.Uint32(t))
	}
	return 0
}

func (r *reader) int64() int64 {
	if t := r.take(8); t != nil {
		return int64(binary.BigEndian.Uint64(t))
	}
	return 0
}

// string reads a nullable string; null is empty.
func (r *reader) string() string {
	n := r.int16()
	if n < 0 {
		return ""
	}
	return string(r.take(int(n)))
}

// compact reads a string of a flexible version.
func (r *reader) compact() string {
	n := r.uvarint()
	if n == 0 {
		return ""
	}
	return string(r.take(int(min(n-1, math.MaxInt32))))
}

// array reads an array's length in either form, for elements of at least size bytes each.
func (r *reader) array(flexible bool, size int) int {
	if !flexible {
		return r.count(size)
	}
	n := r.uvarint()
	if n == 0 {
		return 0
	}
	if n-1 > uint64(len(r.b)/size) {
		r.bad = true
		return 0
	}
	return int(n - 1)
}

// bytes reads nullable bytes, which alias the answer.
func (r *reader) bytes() []byte {
	n := r.int32()
	if n < 0 {
		return nil
	}
	return r.take(int(n))
}

// count reads an array's length, for elements of at least size bytes each.
func (r *reader) count(size int) int {
	n := int(r.int32())
	if n < 0 {
		return 0
	}
	if n > len(r.b)/size {
		r.bad = true
		return 0
	}
	return n
}

func (r *reader) tags() {
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		r.uvarint()
		size := r.uvarint()
		if size > uint64(len(r.b)) {
			r.bad = true
			return
		}
		r.take(int(size))
	}
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if r.bad || n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func appendUvarint(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }
