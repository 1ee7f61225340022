package serve

import (
	"context"
	"errors"
	"fmt"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// An older ranking is searched in the log from the time of its impression on: it was written moments later.
const (
	mostSearches = 4        // at once, for requests of rankings; as many again for old impressions
	searchBytes  = 32 << 20 // of the log, in one search
	searchSlack  = 5_000    // milliseconds by which a platform's clock may be ahead of the brokers'
)

var errSearchesBusy = errors.New("other rankings are being looked for")

// search looks for a ranking in the log; nil: not found. It does nothing if
// all rankings since from are held. slots bounds the searches of its kind.
func (s *Service) search(ctx context.Context, slots chan struct{}, id string, from event.Millis) (*ranking, error) {
	from -= searchSlack
	if s.caughtUp() && s.book.knows(from) {
		return s.book.find(id), nil
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	default:
		return nil, errSearchesBusy
	}
	p, ok := s.writer.partitionOf([]byte(id))
	if !ok {
		return nil, errNoTopics
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	log := s.broker.Partition(int32(p))
	next, ok, err := log.OffsetAt(ctx, event.Rankings, from)
	if err != nil || !ok {
		return nil, err
	}
	decoder := event.NewDecoder(event.Limits{})
	owners := s.owners(int32(p))
	for left := searchBytes; left > 0; {
		f, err := log.Fetch(ctx, task.Fetch{Topic: event.Rankings, Offset: next, MaxBytes: tailBytes})
		if err != nil {
			return nil, fmt.Errorf("looking for a ranking: %w", err)
		}
		owners.mark(f.Markers)
		for i := range f.Records {
			r := &f.Records[i]
			if string(r.Key) == id && owners.wrote(&f.Origins[i]) && ours(decoder, s.cfg.Kafka.Group, r) {
				return remembered(r), nil
			}
			left -= len(r.Key) + len(r.Value)
		}
		switch {
		case f.Next >= f.High:
			return nil, nil
		case f.Next == next:
			return nil, fmt.Errorf("looking for a ranking: %w", task.ErrNothingRead)
		}
		next = f.Next
	}
	return nil, nil
}
