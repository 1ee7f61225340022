package registry

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"

	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

type result struct {
	schema *schema
	err    error
}

var errNotAsked = errors.New("it was not asked for: too many others failed before it, or the time was over")

// schemas fills in the results of a topic's schema ids. It requests those not in memory, several at a time.
func (r *Reader) schemas(ctx context.Context, topic event.Topic, ids []uint32, found map[uint32]result) {
	var unknown []key
	r.mu.Lock()
	for _, id := range ids {
		k := key{topic, id}
		switch s := r.known[k]; {
		case s != nil:
			found[id] = result{schema: s}
		case r.unfit[k] != nil:
			found[id] = result{schema: r.unfit[k]}
		case id > math.MaxInt32:
			found[id] = result{schema: &schema{fault: faultf(event.UnknownSchema, "no schema has the id %d, which the value's header names: "+
				"ids end at %d", id, math.MaxInt32)}}
		default:
			unknown = append(unknown, k)
		}
	}
	r.mu.Unlock()
	if len(unknown) == 0 {
		return
	}
	results := r.askAll(ctx, unknown)
	r.judge(ctx, unknown, results)
	for i, k := range unknown {
		found[k.id] = results[i]
	}
}

func (r *Reader) askAll(ctx context.Context, all []key) []result {
	results := make([]result, len(all))
	for i := range results {
		results[i].err = errNotAsked
	}
	var next, failures atomic.Int64
	var wg sync.WaitGroup
	for range min(len(all), mostAtOnce) {
		wg.Go(func() {
			for failures.Load() < mostFailures {
				i := int(next.Add(1)) - 1
				if i >= len(all) {
					return
				}
				select {
				case r.asking <- struct{}{}:
				case <-ctx.Done():
					return
				}
				s, err := r.ask(ctx, all[i])
				<-r.asking
				if results[i] = (result{s, err}); err != nil {
					failures.Add(1)
				}
			}
		})
	}
	wg.Wait()
	return results
}

// judge stores schemas, and turns failures that have lasted long enough into faults.
func (r *Reader) judge(ctx context.Context, all []key, results []result) {
	ill := slices.ContainsFunc(results, func(s result) bool { return failsAlone(s.err) })
	well := ill && r.Check(ctx) == nil
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, k := range all {
		s := &results[i]
		switch {
		case s.err == nil:
			delete(r.ill, k)
			if s.schema.avro != nil {
				remember(r.known, mostSchemas, k, s.schema)
			} else if s.schema.fault.Reason == event.UnfitSchema {
				remember(r.unfit, mostSchemas, k, s.schema)
			}
		case !well || !failsAlone(s.err):
			if in := r.ill[k]; in != nil && !in.refused {
				delete(r.ill, k)
			}
		default:
			in := r.ill[k]
			if in == nil || !in.refused && now.Sub(in.last) > failingUntil {
				in = &illness{since: now}
				remember(r.ill, mostIll, k, in)
			}
			in.last = now
			if in.refused = in.refused || now.Sub(in.since) >= refusedAfter; in.refused {
				f := faultf(event.UnknownSchema, "the schema registry has not given schema %d, which the value's header names, for %s while it "+
					"answered for others: %.300q", k.id, refusedAfter, s.err.Error())
				*s = result{schema: &schema{fault: f}}
			} else {
				s.err = fmt.Errorf("%w: it answers for others; records that name it become dead letters if this lasts %s: %w",
					broker.ErrContent, refusedAfter, s.err)
			}
		}
	}
}

// remember makes room in a full map by dropping any other entry.
func remember[V any](m map[key]V, most int, k key, v V) {
	if _, ok := m[k]; !ok && len(m) >= most {
		for other := range m {
			delete(m, other)
			break
		}
	}
	m[k] = v
}

// failsAlone reports whether a failure can be about one schema: the registry has answered, and is not overloaded.
func failsAlone(err error) bool {
	answer := (*sr.ResponseError)(nil)
	return errors.As(err, &answer) && answer.StatusCode != http.StatusTooManyRequests
}

// Check returns the registry's failure to answer for some schema: a known one, else an id that no registry has reached yet.
func (r *Reader) Check(ctx context.Context) error {
	id := math.MaxInt32
	r.mu.Lock()
	for k := range r.known {
		id = int(k.id)
		break
	}
	r.mu.Unlock()
	_, err := r.client.SchemaByID(ctx, id)
	if saysUnknown(err) {
		return nil
	}
	return err
}

func saysUnknown(err error) bool {
	answer := (*sr.ResponseError)(nil)
	return errors.As(err, &answer) && slices.Contains(codesUnknown, answer.ErrorCode)
}

// ask fetches one schema. If the registry lacks it, or one that it refers to, the record is faulty.
func (r *Reader) ask(ctx context.Context, k key) (*schema, error) {
	got, err := r.client.SchemaByID(ctx, int(k.id))
	if saysUnknown(err) {
		return &schema{fault: faultf(event.UnknownSchema, "the schema registry has no schema %d, which the value's header names", k.id)}, nil
	}
	if err != nil {
		return nil, err
	}
	if got.Type != sr.TypeAvro {
		return &schema{fault: faultf(event.UnfitSchema, "schema %d is %s, not Avro: see kafka.formats", k.id, got.Type)}, nil
	}
	cache := new(avro.SchemaCache)
	err = r.references(ctx, cache, got.References, map[sr.SchemaReference]bool{})
	if saysUnknown(err) {
		return &schema{fault: faultf(event.UnknownSchema, "schema %d, %.300q", k.id, err.Error())}, nil
	}
	if err != nil {
		return nil, err
	}
	writer, err := cache.Parse(got.Schema)
	if err == nil {
		writer, err = resolve(k.topic, r.context, writer)
	}
	if err != nil {
		return &schema{fault: faultf(event.UnfitSchema, "schema %d: %.300q", k.id, err.Error())}, nil
	}
	return &schema{avro: writer}, nil
}
