package task

import (
	"errors"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
)

// acquisition is what an acquire has found out so far.
type acquisition struct {
	meta         state.Meta
	facts        Description
	producer     Producer // to produce with
	mark         Producer // the abort marker's: the end of what earlier owners can have written
	fencedAt     time.Duration
	logProducers []Producer // earlier owners' that a replay has met, and that the state does not name
}

// earlier are the producers that this partition is known to have had, with the latest last: those that the state names, and
// those of which only the log tells.
func (a *acquisition) earlier() []Producer {
	var all []Producer
	for _, id := range a.meta.FormerProducers {
		all = append(all, Producer{id, -1})
	}
	if a.meta.ProducerID >= 0 {
		all = append(all, Producer{a.meta.ProducerID, a.meta.ProducerEpoch})
	}
	return append(all, a.logProducers...)
}

// maxFormer is how many earlier producer ids a state names. There is a new one after each 32,000 fences, and after days without
// an owner; brokers forget those that wrote nothing for a day.
const maxFormer = 16

// former are the ids that the next checkpoint names as those of earlier producers: all that the replay trusts, since another
// owner may go on with it. A replay that trusts every producer (trusted is nil) leaves those that the state has named so far.
func (a *acquisition) former(trusted []int64) []int64 {
	if trusted == nil {
		return a.meta.FormerProducers
	}
	var ids []int64
	for _, id := range trusted {
		if id >= 0 && id != a.producer.ID && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids[max(0, len(ids)-maxFormer):]
}

// metaOf is what all checkpoints of this owner say.
func (a *acquisition) metaOf(trusted []int64) state.Meta {
	m := a.meta
	m.ProducerID, m.ProducerEpoch = a.producer.ID, a.producer.Epoch
	m.FormerProducers = a.former(trusted)
	return m
}

// noProducer is the producer that a first InitProducer names.
var noProducer = Producer{-1, -1}

// markerTimeout is how long our abort marker may take to show itself: the coordinator writes it after it has answered.
const markerTimeout = 30 * time.Second

var errNoMarker = errors.New("our abort marker is not in the log")
