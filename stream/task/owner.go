package task

import (
	"errors"
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
)

// ownership holds whether the stored state is ours, and the store fit to keep it.
type ownership struct {
	fence    state.Fence // of the last acked checkpoint
	probing  bool
	probedAt time.Duration
	unfit    bool // the store's settings may delete stored data
}

// probeEvery is the interval of checks that the store holds our state and is fit.
const probeEvery = time.Second

func (o *ownership) probeDue(now time.Duration) bool {
	return !o.probing && now-o.probedAt >= probeEvery
}

// probed ends a probe. After an error other than ErrUnfit the fitness is unchanged.
func (o *ownership) probed(now time.Duration, err error) {
	o.probing, o.probedAt = false, now
	o.unfit = errors.Is(err, state.ErrUnfit) || o.unfit && err != nil
}

// verify compares a fence that the store showed with ours. The token must be equal. The sequence must lie between low, of the last ack when
// the store was asked, and that of a checkpoint in flight. Otherwise there is a later owner, or a rollback.
func (o *ownership) verify(f state.Fence, low int64, saving bool) error {
	high := o.fence.Seq
	if saving {
		high++
	}
	if f.Token != o.fence.Token || f.Seq < low || f.Seq > high {
		return fmt.Errorf("%w: the store shows %v, ours is %v", state.ErrFenced, f, o.fence)
	}
	return nil
}
