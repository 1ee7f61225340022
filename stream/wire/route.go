package wire

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/stream/task"
)

// Route carries requests to one destination (kmsg.Requestor).
type Route struct {
	Transport kafka.RoundTripper
	Addr      net.Addr
	To        Destination
}

// Request sends a request in the last version that both sides speak. It fails with task.ErrUnsupported, before anything is sent, if there
// is none; with ErrAnswer; or with the Transport's error. The connection may use the request after an error: it is not used again.
func (r Route) Request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	return r.Send(ctx, req, nil)
}

// Send is Request for a request that is encoded already, and equal in all versions.
func (r Route) Send(ctx context.Context, req kmsg.Request, encoded []byte) (kmsg.Response, error) {
	x := &Exchange{req: req, encoded: encoded}
	var m protocol.Message = x
	if r.To != nil {
		m = r.To(x)
	}
	res, err := r.Transport.RoundTrip(ctx, r.Addr, m)
	if err != nil {
		return nil, err
	}
	return res.(answer).Response, nil
}

// Destination routes an Exchange; nil: to any broker.
type Destination func(*Exchange) protocol.Message

func ToBroker(id int32) Destination {
	return func(x *Exchange) protocol.Message { return toBroker{x, id} }
}

// ToGroup is the coordinator of a consumer group.
func ToGroup(group string) Destination {
	return func(x *Exchange) protocol.Message { return toGroup{x, group} }
}

// ToTransactions is the coordinator of a transactional id.
func ToTransactions(id string) Destination {
	return func(x *Exchange) protocol.Message { return toTransactions{x, id} }
}

type (
	toBroker struct {
		*Exchange
		id int32
	}
	toGroup struct {
		*Exchange
		group string
	}
	toTransactions struct {
		*Exchange
		id string
	}
)

func (m toBroker) Broker(protocol.Cluster) (protocol.Broker, error) {
	return protocol.Broker{ID: m.id}, nil
}
func (m toGroup) Group() string              { return m.group }
func (m toTransactions) Transaction() string { return m.id }

var (
	_ kmsg.Requestor                = Route{}
	_ protocol.RawExchanger         = (*Exchange)(nil)
	_ protocol.BrokerMessage        = toBroker{}
	_ protocol.GroupMessage         = toGroup{}
	_ protocol.TransactionalMessage = toTransactions{}
)

// Exchange is a request that the Transport sends in the goroutine of a connection, which may outlive the call.
type Exchange struct {
	req     kmsg.Request
	encoded []byte // nil: not yet
}

type answer struct{ kmsg.Response }

func (x *Exchange) ApiKey() protocol.ApiKey { return protocol.ApiKey(x.req.Key()) }
func (a answer) ApiKey() protocol.ApiKey    { return protocol.ApiKey(a.Key()) }

// Required takes the connection's version, which is one that kafka-go knows.
func (x *Exchange) Required(negotiated map[protocol.ApiKey]int16) bool {
	x.req.SetVersion(min(negotiated[x.ApiKey()], spoken[kmsg.Key(x.req.Key())].last))
	return true
}

func (x *Exchange) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	key := kmsg.Key(x.req.Key())
	if spoken[key].unknown {
		theirs, err := AskVersions(rw, ClientID)
		if err != nil {
			return nil, fmt.Errorf("asking for the broker's versions: %w", err)
		}
		version, err := theirs.Common(key)
		if err != nil {
			return nil, err
		}
		x.req.SetVersion(version)
	}
	version := x.req.GetVersion()
	if first := spoken[key].first; version < first {
		return nil, fmt.Errorf("%w: the broker speaks %s only up to version %d, and %d is needed", task.ErrUnsupported, key.Name(), version, first)
	}
	if x.encoded == nil {
		x.encoded = Append(make([]byte, 0, usualRequest), ClientID, x.req)
	}
	const at = 4 + 2 // behind size and key
	binary.BigEndian.PutUint16(x.encoded[at:], uint16(version))
	res, err := exchange(rw, x.encoded, x.req)
	if err != nil {
		return nil, err
	}
	return answer{res}, nil
}
