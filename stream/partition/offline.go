package partition

import (
	"github.com/valyala/fastjson"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
)

// Offline is a machine for the state commands, without a task. It is loaded like a worker's, and its Seal returns its changes. Methods that
// only commands need are in the files offline*.go.
type Offline struct {
	*Machine
	carried int64 // impressions carried over; see Transfer
}

func NewOffline(cfg Config) (*Offline, error) {
	m, err := New(cfg)
	if err != nil {
		return nil, err
	}
	return &Offline{Machine: m}, nil
}

// ContinueOrders numbers the partition's order records behind those that another machine of it wrote: their numbers rise as long as the log.
func (o *Offline) ContinueOrders(from *Offline) { o.steps.orders = from.Orders() }

// ParseItem decodes a field of a learner's items hash: the item's number and this partition's sums.
func ParseItem(value []byte) (policy.Item, policy.Sums, error) {
	it, err := parseItem(new(fastjson.Parser), value)
	return it.number, it.sums, err
}

// KeyHashOf returns the default partitioner's hash of a stored id's text. It is not known for an ended impression whose id is no UUID.
func KeyHashOf(id state.ID, value []byte) (hash uint32, known bool) {
	if !id.Hashed() {
		return state.KeyHash(id.AppendText(nil)), true
	}
	hash, entry := cutKeyHash(value)
	return hash, len(entry) < len(value)
}
