package task

import (
	"errors"
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
)

// ownership is what is known of the store: that the state there is ours, and that it is fit to keep it.
type ownership struct {
	fence    state.Fence // as of the last acked checkpoint
	probing  bool
	probedAt time.Duration
	unfit    bool // the store is set up so that it may delete what it is given
}

// probeEvery is how often a partition makes sure that the store is still as we left it, and still set up to keep it.
const probeEvery = time.Second

func (o *ownership) probeDue(now time.Duration) bool {
	return !o.probing && now-o.probedAt >= probeEvery
}

// probed takes the end of a probe. Of other errors than one it is not known whether the store is fit again.
func (o *ownership) probed(now time.Duration, err error) {
	o.probing, o.probedAt = false, now
	o.unfit = errors.Is(err, state.ErrUnfit) || o.unfit && err != nil
}

// verify holds a fence that the store showed against ours: the token must be ours, and the sequence between that of
// the last ack when we asked, low, and that of a checkpoint in flight now. Anything else means a later owner or a rollback.
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
