package broker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/stream/task"
)

// Retire makes the leaders of all our partitions of this number refuse every batch of a producer id: an abort marker of its last epoch
// fences all earlier ones. It is for an id that the transaction coordinator has dropped, so that InitProducerID cannot raise its epoch. The
// coordinator is not involved, and could not end a transaction of that id later. Retire may be repeated, and must be if the fence has to
// outlast the brokers' memory of silent producers (producer.id.expiration.ms, a day).
//
// It fails with task.ErrUnsupported without the right, or if the broker does not speak WriteTxnMarkers.
func (p *Partition) Retire(ctx context.Context, r task.Retire) error {
	doing := fmt.Sprintf("retiring producer id %d, which the transaction coordinator has forgotten", r.ProducerID)
	version, err := p.c.versionOf(ctx, apiWriteMarkers, "WriteTxnMarkers")
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	l, topics, err := p.written(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	byLeader := make(map[int32][]string)
	for _, name := range topics {
		lead, err := l.leader(name, p.number)
		if err != nil {
			p.c.metadataCache.outdated(l)
			return fmt.Errorf("%s: %w", doing, err)
		}
		byLeader[lead.broker] = append(byLeader[lead.broker], name)
	}
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		faults []error
	)
	for broker, names := range byLeader {
		wg.Go(func() {
			if err := p.writeMarkers(ctx, broker, version, r.ProducerID, names); err != nil {
				mu.Lock()
				defer mu.Unlock()
				faults = append(faults, err)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(faults...); err != nil {
		p.c.metadataCache.outdated(l)
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

func (p *Partition) writeMarkers(ctx context.Context, broker int32, version int16, producer int64, topics []string) error {
	x := p.c.exchange(apiWriteMarkers, nil)
	x.fixed = &version
	number := p.number
	x.encode = func(version int16, b []byte) []byte {
		w := writer{b: b, flexible: version >= apiWriteMarkers.flexible}
		w.array(1)
		w.b = appendInt64(w.b, producer)
		w.b = appendInt16(w.b, math.MaxInt16)
		w.b = append(w.b, 0) // abort
		w.array(len(topics))
		for _, name := range topics {
			w.string(name)
			w.array(1)
			w.b = appendInt32(w.b, number)
			w.tags()
		}
		w.b = appendInt32(w.b, math.MaxInt32) // the coordinator's epoch: no marker of a coordinator follows
		w.tags()
		w.tags()
		return w.b
	}
	a, err := p.c.do(ctx, brokerExchange{x, broker})
	if err != nil {
		return err
	}
	return parseMarkers(a, topics, number)
}

func parseMarkers(a *answer, topics []string, number int32) (failed error) {
	r := reader{b: a.body}
	flexible := a.version >= apiWriteMarkers.flexible
	missing := make(map[string]bool, len(topics))
	for _, name := range topics {
		missing[name] = true
	}
	tags := func() {
		if flexible {
			r.tags()
		}
	}
	for n := r.array(flexible, 8); n > 0 && !r.bad; n-- {
		r.int64() // producer id
		for m := r.array(flexible, 2); m > 0 && !r.bad; m-- {
			name := ""
			if flexible {
				name = r.compact()
			} else {
				name = r.string()
			}
			for k := r.array(flexible, 4+2); k > 0 && !r.bad; k-- {
				partition, code := r.int32(), kafka.Error(r.int16())
				tags()
				if partition == number {
					delete(missing, name)
				}
				if err := markerError(code); err != nil && failed == nil {
					failed = fmt.Errorf("%s: %w", partitionName(name, partition), err)
				}
			}
			tags()
		}
		tags()
	}
	if r.bad || failed == nil && len(missing) > 0 {
		return fmt.Errorf("%w: write transaction markers", errAnswer)
	}
	return failed
}

func markerError(code kafka.Error) error {
	if code == kafka.ClusterAuthorizationFailed {
		return fmt.Errorf("%w without the right ClusterAction on the cluster (in the ACLs: operation ClusterAction, resource type "+
			"Cluster, for the workers' user): %w", task.ErrUnsupported, code)
	}
	return brokerError(code)
}

// writer encodes a request in its two forms, flexible and not.
type writer struct {
	b        []byte
	flexible bool
}

func (w *writer) array(n int) {
	if w.flexible {
		w.b = appendUvarint(w.b, uint64(n)+1)
	} else {
		w.b = appendInt32(w.b, int32(n))
	}
}

func (w *writer) string(s string) {
	if w.flexible {
		w.b = append(appendUvarint(w.b, uint64(len(s))+1), s...)
	} else {
		w.b = appendString(w.b, s)
	}
}

func (w *writer) tags() {
	if w.flexible {
		w.b = append(w.b, 0)
	}
}
