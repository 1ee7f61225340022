package task

import (
	"github.com/cespare/xxhash/v2"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// witness is a topic's record that must not have changed.
type witness struct {
	topic event.Topic
	state.Witness
}

// witnessOf identifies a record. The timestamp of our own ranking is set by the broker, and unknown when it is produced: 0.
func witnessOf(offset, timestamp int64, key, value []byte) state.Witness {
	var d xxhash.Digest
	d.Reset()
	d.Write(key)
	d.Write([]byte{0})
	d.Write(value)
	return state.Witness{Offset: offset, Timestamp: timestamp, Hash: d.Sum64()}
}

func witnessOfRecord(r *partition.Record) state.Witness {
	w := witnessOf(r.Offset, r.Timestamp, r.Key, r.Value)
	if r.Cut != nil {
		w.Hash = r.Cut.Hash
	}
	return w
}

// Matches reports whether a record is the one of a witness.
func Matches(w state.Witness, r *partition.Record) bool {
	got := witnessOfRecord(r)
	if w.Timestamp == 0 {
		got.Timestamp = 0
	}
	return got == w
}
