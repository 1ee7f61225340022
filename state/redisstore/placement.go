package redisstore

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/cespare/xxhash/v2"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// placement says over which of its hashes a state of a layout below 3 is spread: random digits that it got when it began. The empty
// placement is that of states which were begun before there was any.
type placement string

// shard is where the entry of an id lay.
func (pl placement) shard(id []byte) uint64 {
	if pl == "" {
		return xxhash.Sum64(id) % oldShards
	}
	var room [16 + event.MaxIDBytes]byte
	sum := sha256.Sum256(append(append(room[:0], pl...), id...))
	return uint64(binary.BigEndian.Uint16(sum[:])) % oldShards
}
