package task

import (
	"errors"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
)

// acquisition holds the results of an acquire.
type acquisition struct {
	meta         state.Meta
	facts        Description
	producer     Producer // the producer to use
	mark         Producer // the abort marker's producer: earlier owners' writes end at the marker
	fencedAt     time.Duration
	logProducers []Producer // of earlier owners, read from the log and missing in the state
}

// earlier returns the known producers of this partition, latest last: those in the state, then those in the log only.
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

// maxFormer bounds the earlier producer ids in a state. A new id comes after 32,000
// fences, or days without an owner; brokers forget an id that wrote nothing for a day.
const maxFormer = 16

// former returns the earlier producer ids for the next checkpoint: all that the replay trusts, since another
// owner may continue it. With trusted nil, which trusts every producer, those of the loaded state stay.
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

// metaOf returns the meta data that all checkpoints of this owner share.
func (a *acquisition) metaOf(trusted []int64) state.Meta {
	m := a.meta
	m.ProducerID, m.ProducerEpoch = a.producer.ID, a.producer.Epoch
	m.FormerProducers = a.former(trusted)
	return m
}

// noProducer is named by a first InitProducer.
var noProducer = Producer{-1, -1}

// markerTimeout bounds the wait for our abort marker, which the coordinator writes after it has answered.
const markerTimeout = 30 * time.Second

var errNoMarker = errors.New("our abort marker is not in the log")
