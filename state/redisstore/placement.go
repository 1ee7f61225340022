package redisstore

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"github.com/cespare/xxhash/v2"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// placement says over which of its hashes a state's records are spread: random digits that it gets when it begins. Ids come
// from outside: if their hash could be computed there, ids could be chosen that all fill one, until no step of bounded size
// could read it. The empty placement is that of states which were begun before there was any.
type placement string

// newPlacement makes 64 random bits. crypto/rand does not fail.
func newPlacement() placement {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return placement(hex.EncodeToString(b[:]))
}

// shard is where the record of an id lies. It is made by SHA-256 of the digits and the id: for xxhash64 there are ids that
// collide under every seed.
func (pl placement) shard(id []byte) uint64 {
	if pl == "" {
		return xxhash.Sum64(id) % Shards
	}
	var room [16 + event.MaxIDBytes]byte
	sum := sha256.Sum256(append(append(room[:0], pl...), id...))
	return uint64(binary.BigEndian.Uint16(sum[:])) % Shards
}

// placements are those last seen, by partition. One may be that of a state which is gone: each script that is given keys
// made by one compares it with the state's own.
type placements struct {
	mu sync.Mutex
	of map[int32]placement
}

func (l *placements) get(p int32) placement {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.of[p]
}

func (l *placements) set(p int32, pl placement) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[int32]placement{}
	}
	l.of[p] = pl
}

// misplaced is a script's answer to keys made by another placement than the state's, which is this.
type misplaced struct{ placement placement }

func (e *misplaced) Error() string {
	return fmt.Sprintf("the state's records are placed by %q", string(e.placement))
}

// withPlacement calls do with the placement of p's state, anew where a script says that it is another.
func (s *Store) withPlacement(p int32, do func(placement) error) error {
	for range readTries {
		err := do(s.placements.get(p))
		var other *misplaced
		if !errors.As(err, &other) {
			return err
		}
		s.placements.set(p, other.placement)
	}
	return errMoving
}
