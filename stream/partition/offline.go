package partition

import (
	"github.com/valyala/fastjson"

	"github.com/ranker-worker/ranker-worker/policy"
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
	return parseItem(new(fastjson.Parser), value)
}

// BucketOf is the bucket of the expiry index in which the id of a stored entry stands.
func BucketOf(value []byte) (int64, error) {
	var e entry
	if err := decodeEntry(value, &e); err != nil {
		return 0, err
	}
	return e.bucket, nil
}
