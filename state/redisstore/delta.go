package redisstore

import (
	"encoding/binary"
	"errors"

	"github.com/ranker-worker/ranker-worker/state"
)

var errDelta = errors.New("an entry of the deltas' stream is cut off")

// parseDelta is the reverse of packer.published. The fields alias b.
func parseDelta(b []byte) ([]state.Field, error) {
	var fields []state.Field
	for len(b) > 0 {
		var name, field []byte
		var ok bool
		if name, b, ok = cutPrefixed(b, 0); !ok {
			return nil, errDelta
		}
		if field, b, ok = cutPrefixed(b, 0); !ok {
			return nil, errDelta
		}
		f := state.Field{Hash: string(name), Field: field}
		if len(b) > 0 && b[0] == 0 {
			b = b[1:]
		} else if f.Value, b, ok = cutPrefixed(b, 1); !ok {
			return nil, errDelta
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// cutPrefixed reads a varint n, and cuts off n−bias bytes.
func cutPrefixed(b []byte, bias uint64) (part, rest []byte, ok bool) {
	n, size := binary.Uvarint(b)
	if size <= 0 || n < bias || n-bias > uint64(len(b)-size) {
		return nil, nil, false
	}
	end := size + int(n-bias)
	return b[size:end:end], b[end:], true
}
