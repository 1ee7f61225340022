package stream

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	kafka "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// heartbeatRequest is Kafka's Heartbeat, version 0. kafka-go's Client.Heartbeat (v0.4.51) never fails: it reads the response's fields in
// the wrong order, so that the error code lands in the throttle time. It also asks any broker instead of the coordinator. The transport
// lets a message write its own bytes, and finds the group's coordinator.
type heartbeatRequest struct {
	clientID   string
	group      string
	generation int32
	member     string
}

// heartbeatResponse is the coordinator's answer: nil, or a kafka.Error.
type heartbeatResponse struct{ err error }

var (
	_ protocol.GroupMessage = (*heartbeatRequest)(nil)
	_ protocol.RawExchanger = (*heartbeatRequest)(nil)
)

// heartbeatCorrelation is the request's id on its connection, which carries one request at a time.
const heartbeatCorrelation = 0x72616e6b

// heartbeatAnswer is the size of a version 0 response in bytes: correlation id and error code.
const heartbeatAnswer = 6

var errHeartbeatAnswer = errors.New("the answer to a heartbeat makes no sense")

func (*heartbeatRequest) ApiKey() protocol.ApiKey  { return protocol.Heartbeat }
func (*heartbeatResponse) ApiKey() protocol.ApiKey { return protocol.Heartbeat }

// Group makes the transport send the request to the group's coordinator.
func (r *heartbeatRequest) Group() string { return r.group }

// Required leaves the exchange to RawExchange.
func (r *heartbeatRequest) Required(map[protocol.ApiKey]int16) bool { return true }

// RawExchange writes the request and reads the response. An error closes
// the connection, so no later request reads the rest of a broken answer.
func (r *heartbeatRequest) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	if _, err := rw.Write(r.bytes()); err != nil {
		return nil, err
	}
	var answer [4 + heartbeatAnswer]byte
	if _, err := io.ReadFull(rw, answer[:]); err != nil {
		return nil, err
	}
	size, correlation := binary.BigEndian.Uint32(answer[:]), binary.BigEndian.Uint32(answer[4:])
	if size != heartbeatAnswer || correlation != heartbeatCorrelation {
		return nil, fmt.Errorf("%w: %x", errHeartbeatAnswer, answer)
	}
	if code := int16(binary.BigEndian.Uint16(answer[8:])); code != 0 {
		return &heartbeatResponse{kafka.Error(code)}, nil
	}
	return &heartbeatResponse{}, nil
}

func (r *heartbeatRequest) bytes() []byte {
	b := make([]byte, 4, 64+len(r.group)+len(r.member)+len(r.clientID)) // the size is filled in last
	b = binary.BigEndian.AppendUint16(b, uint16(protocol.Heartbeat))
	b = binary.BigEndian.AppendUint16(b, 0) // version
	b = binary.BigEndian.AppendUint32(b, heartbeatCorrelation)
	b = appendKafkaString(b, r.clientID)
	b = appendKafkaString(b, r.group)
	b = binary.BigEndian.AppendUint32(b, uint32(r.generation))
	b = appendKafkaString(b, r.member)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// appendKafkaString appends a string of Kafka's older requests. Group, member and
// client ids are far below its 32 KiB; the configuration checks the group's length.
func appendKafkaString(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}
