package serve

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

const (
	requestLimit = 10 * time.Second // of one request to a broker, its wait included
	tailWait     = 500 * time.Millisecond
	tailBytes    = 1 << 20
	tailPause    = 100 * time.Millisecond
	// least assumed size of a ranking, for the read at the start
	leastRanking = 256

	behind = "have not been read to their end yet"
)

func rankingsOf(p int32) string { return fmt.Sprintf("the rankings of partition %d", p) }

// tail reads one partition of the rankings: first as many existing ones as can be held, then new ones.
func (s *Service) tail(ctx context.Context, p int32) {
	t := tail{s: s, log: s.broker.Partition(p), number: p, decoder: event.NewDecoder(event.Limits{})}
	for {
		err := t.step(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			continue
		}
		s.note(rankingsOf(p), "cannot be read: "+err.Error())
		t.end = max(t.end, t.next+1) // not ready before something was read again
		if errors.Is(err, task.ErrOffsetOutOfRange) {
			t.begun = false
		}
		select {
		case <-time.After(tailPause):
		case <-ctx.Done():
			return
		}
	}
}

// tail is the progress in one partition.
type tail struct {
	s       *Service
	log     *broker.Partition
	number  int32
	decoder *event.Decoder

	begun, cut bool
	next, end  int64 // end is the log's end when it began, or was last found again
}

func (t *tail) step(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	if !t.begun {
		if err := t.begin(ctx); err != nil {
			return err
		}
	}
	f, err := t.log.Fetch(ctx, task.Fetch{Topic: event.Rankings, Offset: t.next, MaxBytes: tailBytes, MaxWait: tailWait})
	if err != nil {
		return err
	}
	owners := t.s.owners(t.number)
	owners.mark(f.Markers)
	for i := range f.Records {
		r := &f.Records[i]
		if t.cut {
			t.cut = false
			t.s.book.begins(r.Timestamp)
		}
		if owners.wrote(&f.Origins[i]) {
			t.take(r)
		}
	}
	if t.next = f.Next; t.next >= min(t.end, f.High) {
		t.s.note(rankingsOf(t.number), "")
	}
	return nil
}

// begin finds the offset to read from: as many rankings before the log's end as can be held.
func (t *tail) begin(ctx context.Context) error {
	first, end, err := t.log.Bounds(ctx, event.Rankings)
	if err != nil {
		return err
	}
	share := t.s.cfg.Serve.Remember / max(1, t.s.partitions.Load()) / leastRanking
	t.next, t.end = max(first, end-share), end
	if t.next > 0 { // its owners' markers may be earlier
		if err := t.s.askForOwner(ctx, t.log, t.number); err != nil {
			return err
		}
	}
	t.begun, t.cut = true, t.next > first
	return nil
}

// owners are the producers whose rankings of one partition count, as for a worker.
type owners struct {
	mu    sync.Mutex
	known task.Owners
	any   bool // the owners are not known, and no marker has been read yet
}

// mostOwners bounds them; a partition gets another only if the transaction coordinator has forgotten the last.
const mostOwners = 1000

func (o *owners) mark(all []task.Marker) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range all {
		o.known.Mark(&all[i])
		o.any = o.any && !all[i].Abort
	}
	o.known = o.known[max(0, len(o.known)-mostOwners):]
}

func (o *owners) wrote(by *task.Origin) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.any && !by.Transactional || o.known.Wrote(by)
}

func (s *Service) owners(p int32) *owners {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.owning[p]
	if o == nil {
		o = &owners{}
		s.owning[p] = o
	}
	return o
}

// askForOwner asks the transaction coordinator for a partition's present producer.
// Without an answer every producer's rankings count until an owner's marker is read.
func (s *Service) askForOwner(ctx context.Context, log *broker.Partition, p int32) error {
	holder, err := log.Holder(ctx)
	if err != nil && !errors.Is(err, task.ErrUnsupported) {
		return err
	}
	o := s.owners(p)
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err != nil:
		o.any = len(o.known) == 0
		s.opt.Logger.Warn("rankings of every producer are believed until the next fence", "partition", p, "error", err,
			"hint", "let this user describe the transactional ids of the group")
	case holder >= 0:
		o.known.Mark(&task.Marker{Abort: true, Producer: task.Producer{ID: holder}})
	}
	return nil
}

// take passes a ranking of our group to its waiters.
func (t *tail) take(r *partition.Record) {
	if ours(t.decoder, t.s.cfg.Kafka.Group, r) {
		t.s.book.ranked(remembered(r))
	}
}

// ours reports whether a record is a ranking of the group in its workers' form.
func ours(d *event.Decoder, group string, r *partition.Record) bool {
	var ranked event.Ranking
	return d.Ranking(&ranked, r.Value) == nil && ranked.Decision.Group == group && bytes.Equal(ranked.ID, r.Key)
}

// remembered copies a record, whose memory is shared with its whole fetch.
func remembered(r *partition.Record) *ranking {
	return &ranking{id: string(r.Key), value: bytes.Clone(bytes.TrimSpace(r.Value)), at: r.Timestamp}
}
