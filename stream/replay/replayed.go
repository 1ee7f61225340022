package replay

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

type replayed struct {
	*run
	number  int32
	log     Log
	resume  func() (progress, bool)
	yield   func(progress) bool
	done    bool
	without bool         // continue without the awaited checkpoint
	time    event.Millis // of the last ranking
	err     error
	result  Result

	// Of the present owner.
	machine *partition.Machine // nil: none, or it is lost
	lost    string             // why rankings are not exact; "" if they are
	writer  uint32
	seals   uint64 // segments sealed so far, by all owners
	seq     int64  // of the last checkpoint sent
	pos     [event.Inputs]int64
	orders  int64        // number of the last order record, in the base or replayed
	broken  string       // how an order record contradicts the replay; "" if none does
	acted   event.Millis // last watermark at which event time was applied
	visited int64
	since   int64 // records processed since the last observation
	pending []partition.Observation
	loaded  loaded
	ranked  bool // this owner has ranked
	pooled  pooledReplay
	behind  behind
	apart   map[string]bool // learners whose state keeps effects of pooled state, by name
	tainted bool            // of those the state is unknown, since pooled state was
	unsure  bool            // stored estimates of the last sealed segment are unknown, since pooled state was

	image   *image // as stored for certain; nil: lost
	sent    *checkpoint
	unsent  []sealed
	ids     map[int64]state.ID // of impressions, by offset
	decided []*decision        // rankings that a later owner may adopt: those not in image
	bases   bases

	decoder *event.Decoder
	said    event.Ranking
	out     partition.Output
	places  []state.Place
}

// seal identifies a segment: its owner, and the number of segments sealed by then.
type seal struct {
	writer uint32
	number uint64
}

type sealed struct {
	seal
	changes state.Changes
	inputs  [event.Inputs]int64
	orders  int64
	segment uint64 // the machine's number
	unsure  bool   // see replayed
}

type checkpoint struct {
	stamp
	segments  []sealed
	published *delta // the fields that it publishes
}

// ends reports whether a checkpoint ends with a segment.
func (c *checkpoint) ends(s seal) bool { return c != nil && c.segments[len(c.segments)-1].seal == s }

type decision struct {
	*Ranking
	id, learner string
	offset      int64 // of the impression
	time        event.Millis
}

// loaded is the progress of a loaded state towards its next ranking.
type loaded struct {
	first  bool // nothing has been adopted or ranked since
	done   [event.Inputs]int64
	anchor *partition.InputStep
}

// newPart begins with the first base, if there is one.
func newPart(r *run, p int32) (part *replayed, err error) {
	part = &replayed{run: r, bases: bases{good: -1}, apart: apart(r.cfg.Machine(p).Learners), number: p, log: r.cfg.Logs[p],
		lost:  "the topics begin later than the partition's state, or a state command began it, and there is no base",
		image: newImage(), ids: map[int64]state.ID{}, decoder: event.NewDecoder(event.Limits{}), result: Result{NotExact: map[string]Inexact{}}}
	part.image.published = r.published[p].head
	if part.bases.next, err = part.log.Base(-1); err == nil && part.bases.next != nil {
		err = part.begin()
	}
	return part, err
}

// apart returns learners whose state keeps effects of pooled state (delay.Needs).
func apart(learners []partition.LearnerConfig) map[string]bool {
	all := map[string]bool{}
	for i := range learners {
		all[learners[i].Name] = learners[i].New().Needs().Epoch
	}
	return all
}

// all makes the partition's rankings again, one after the other.
func (p *replayed) all(yield func(progress) bool) {
	p.yield = yield
	for n := 1; ; n++ {
		r, err := p.log.Ranking()
		if err == nil && r == nil {
			return
		}
		if err == nil {
			err = p.again(r)
		}
		if err != nil {
			p.err = err
			return
		}
		if (n%64 == 0 || p.enough) && !yield(progress{}) {
			return
		}
	}
}

var errStopped = errors.New("replay: stopped")

// inexact is the reason that rankings from here on are not exact, or a contradiction in the headers.
type inexact struct {
	why           string
	contradiction bool
}

func (u *inexact) Error() string { return "replay: " + u.why }

func notExact(format string, args ...any) error {
	return &inexact{fmt.Sprintf(format, args...), false}
}

func contradicts(format string, args ...any) error {
	return &inexact{fmt.Sprintf(format, args...), true}
}

// outside is the reason if an owner began with another state than the log leads to, or if headers contradict each other.
const outside = "the state went back, was rebuilt, or was changed outside the log: take a new base"

// continues is the reason for a learner in apart.
const continues = "its learner continues from other partitions' state that cannot be reproduced"

// leftOut is the reason for rankings whose owner omitted observations from its headers.
const leftOut = "an owner omitted observations from its headers"

const afterContradiction = "behind a ranking that was different"

// lose gives up the partition's state: rankings are not exact, until a base behind all that were made again or adopted.
func (p *replayed) lose(why string) (err error) {
	p.lost, p.published[p.number].over = why, why
	p.machine, p.image, p.pending, p.sent, p.unsent, p.decided = nil, nil, nil, nil, nil, nil
	if p.bases.next != nil && p.bases.next.Rankings <= p.bases.good {
		p.bases.next, err = p.log.Base(p.bases.good)
	}
	return err
}

func (p *replayed) again(r *Ranking) error {
	for (p.machine == nil || p.behind.began) && p.bases.has(r) {
		if err := p.begin(); err != nil {
			return err
		}
	}
	d := &decision{Ranking: r}
	if r.Order > 0 {
		return p.order(d)
	}
	if err := p.read(d); err != nil {
		return err
	}
	d.id, d.learner, d.offset, d.time = string(p.said.ID), string(p.said.Learner), p.said.Decision.Offset, p.said.Time
	p.time = d.time
	switch {
	case d.offset >= p.bases.from:
	case p.bases.earlier == "":
		return nil // in the base
	default:
		p.count(d, p.bases.earlier, false, nil)
		return nil
	}
	same, made, err := p.make(d)
	if p.broken != "" {
		same, err, p.broken = false, contradicts("%s", p.broken), ""
	}
	var u *inexact
	switch {
	case errors.As(err, &u) && u.contradiction:
		p.count(d, "", false, []byte(u.why))
		return p.lose(afterContradiction)
	case u != nil:
		if err = p.lose(u.why); err == nil && p.bases.has(r) {
			return p.again(r)
		}
		p.count(d, u.why, false, nil)
		return err
	case err != nil:
		return err
	}
	p.decided, p.bases.good = append(p.decided, d), d.Offset
	why := ""
	if !same && made == nil {
		why = p.why(d)
	}
	p.count(d, why, same, made)
	return nil
}

// why is the reason for not making a ranking; "" if the result would be known.
func (p *replayed) why(d *decision) string {
	switch {
	case p.behind.began:
		return beforeBase
	case p.pooled.unsure == "" && p.tainted && p.apart[d.learner]:
		return continues
	}
	return p.pooled.unsure
}

// order repeats the owner's work up to an order record.
func (p *replayed) order(d *decision) error {
	if d.Order <= p.orders {
		return nil // in the base
	}
	_, _, err := p.make(d)
	var u *inexact
	if err != nil && !errors.As(err, &u) {
		return err
	}
	if u != nil {
		if u.contradiction {
			p.broken = u.why
		}
		if err = p.lose(u.why); err == nil && p.bases.has(d.Ranking) {
			return p.again(d.Ranking)
		}
		return err
	}
	p.decided, p.bases.good = append(p.decided, d), d.Offset
	return nil
}

func (p *replayed) read(d *decision) error {
	if err := p.decoder.Ranking(&p.said, d.Value); err != nil {
		return fmt.Errorf("the ranking at offset %d: %w", d.Offset, err)
	}
	return nil
}

// count counts a ranking, which is not exact if there is a reason.
func (p *replayed) count(d *decision, notExact string, same bool, made []byte) {
	m := Made{Partition: p.number, Ranking: d.Ranking, ID: d.id, Impression: d.offset, Time: d.time, Same: same, NotExact: notExact}
	p.result.Rankings++
	switch {
	case same:
		p.result.Same++
	case notExact != "":
		p.result.NotExact[notExact] = p.result.NotExact[notExact].Plus(Inexact{1, time.UnixMilli(d.time).UTC(), p.number, d.Offset})
	default:
		m.Again = bytes.Clone(made)
		if p.result.Different++; p.result.First == nil {
			p.result.First = &m
		}
	}
	if p.cfg.Made != nil {
		p.enough = p.cfg.Made(m)
	}
}

// make repeats the owners' work since the last ranking, and makes this one.
func (p *replayed) make(d *decision) (same bool, made []byte, err error) {
	seen, err := partition.ReadSeen(d.Seen)
	if err != nil {
		return false, nil, notExact("%v", err)
	}
	if p.behind.earlier(seen) {
		return false, nil, nil
	}
	seen = p.behind.fresh(seen)
	first := -1 // the first owner with work left; -1: the present one
	for i := range seen {
		if seen[i].Kind == partition.SeenBegun && p.has(&seen[i].Begin) {
			first = i
		}
	}
	if first < 0 && p.machine == nil {
		return false, nil, notExact("%s", lostBehind(p.lost, p.cfg.Machine(p.number), seen))
	}
	targets := []*decision{d}
	if p.behind.began {
		p.behind.began, targets = false, append(p.adopted(), d)
	}
	for first >= 0 || len(seen) > 0 {
		if first >= 0 {
			if err := p.start(&seen[first].Begin); err != nil {
				return false, nil, err
			}
			seen, first = seen[first+1:], -1
			targets = append(p.adopted(), d)
		}
		end := slices.IndexFunc(seen, func(s partition.Observation) bool { return s.Kind == partition.SeenBegun })
		if end < 0 {
			p.pending = append(p.pending, seen...)
			break
		}
		if err := p.leadsTo(&seen[end].Begin, seen[:end], seen[end+1:]); err != nil {
			return false, nil, err
		}
		p.pending = append(p.pending, seen[:end]...)
		if targets, err = p.follow(targets, true); err != nil {
			return false, nil, err
		}
		if !p.has(&seen[end].Begin) {
			return false, nil, notExact(outside)
		}
		seen, first = seen[end:], 0
	}
	if _, err := p.follow(targets, false); err != nil {
		return false, nil, err
	}
	p.loaded.first, p.ranked = false, true
	switch {
	case len(p.pending) > 0:
		return false, nil, notExact(outside)
	case d.Order > 0:
		p.machine.TakeOrder(d.Order)
		return true, nil, nil
	}
	return p.rank(d)
}
