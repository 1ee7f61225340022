package delay

import "github.com/ranker-worker/ranker-worker/policy"

// Readable is a Learner whose estimates other policies can decide by.
type Readable interface {
	Learner
	// DecideBy is Decide by another policy.
	DecideBy(p policy.Policy, candidates []policy.Item, about *policy.Context, key policy.Key, d *Decision)
}

var _ Readable = (*Direct)(nil)

// DecideBy implements Readable. The learner's own policy must not be an explorer.
func (d *Direct) DecideBy(p policy.Policy, candidates []policy.Item, about *policy.Context, key policy.Key, dec *Decision) {
	own := d.policy
	d.policy = p
	d.Decide(candidates, about, key, dec)
	d.policy = own
}
