package partition

import (
	"github.com/valyala/fastjson"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
)

// Offline is a machine in the hands of a state command, with what commands alone ask of it: no task drives it. It is loaded
// as a worker's is, and what it changed is stored by its Seal. All that is for commands only stands behind it, in the files
// offline*.go, apart from the path of a record.
type Offline struct {
	*Machine
	carried int64 // impressions carried over from elsewhere, see Transfer
}

// NewOffline makes one without state.
func NewOffline(cfg Config) (*Offline, error) {
	m, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return &Offline{Machine: m}, nil
}

// ParseItem reads a field of a learner's hash of items: the item's own number and this partition's sums.
func ParseItem(value []byte) (policy.Item, policy.Sums, error) {
	it, err := parseItem(new(fastjson.Parser), value)
	return it.number, it.sums, err
}

// KeyHashOf is what Kafka's default partitioner makes of the text of an id that something is stored under. It is not known of an
// impression that has ended, where the id is no UUID.
func KeyHashOf(id state.ID, value []byte) (hash uint32, known bool) {
	if !id.Hashed() {
		return state.KeyHash(id.AppendText(nil)), true
	}
	hash, entry := cutKeyHash(value)
	return hash, len(entry) < len(value)
}
