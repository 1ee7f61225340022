package replay

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

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
	from    int64        // of impressions: earlier ones are in the base
	orders  int64        // number of the last order record, in the base or replayed
	broken  string       // how an order record contradicts the replay; "" if none does
	acted   event.Millis // last watermark at which event time was applied
	visited int64
	since   int64 // records processed since the last observation
	pending []partition.Observation
	loaded  loaded
	ranked  bool // this owner has ranked
	knows   pooledReplay
	behind  behind
	apart   map[string]bool // learners whose state keeps effects of pooled state, by name

	image       *image
	undo        []undo // of the last checkpoints in image
	guess       guess  // of the last sealed segment
	unsent      []sealed
	checkpoints []checkpoint       // sent, but not in image
	ids         map[int64]state.ID // of impressions, by offset
	decided     []*decision        // rankings that a later owner may adopt: not in the state cut
	cut         position
	passed      bool // the log's first rankings were skipped, so others precede them

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
	machine *partition.Machine
	segment uint64 // the machine's number
	guess   guess  // after it
}

type checkpoint struct {
	stamp
	segments  []sealed
	published *delta // the fields that it publishes
}

type decision struct {
	*Ranking
	id     string
	offset int64 // of the impression
	time   event.Millis
}

// loaded is the progress of a loaded state towards its next ranking.
type loaded struct {
	first  bool // nothing has been adopted or ranked since
	done   [event.Inputs]int64
	anchor *partition.InputStep
}

// kept is the number of sent checkpoints that a new owner may go back, as after a restore of its store: at least a minute's.
const kept = 600

func newPart(r *run, p int32) *replayed {
	return &replayed{run: r, apart: apart(r.cfg.Machine(p).Learners), number: p, log: r.cfg.Logs[p],
		lost:  "the topics begin later than the partition's state, or a state command began it, and there is no base",
		image: newImage(), ids: map[int64]state.ID{}, decoder: event.NewDecoder(event.Limits{}), result: Result{NotExact: map[string]int64{}}}
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

// outside is the reason if an owner began with another state than the log leads to, or if headers contradict each other. From then on it is
// the reason of each different ranking, too: other partitions may have read changes that are not in the log.
const outside = "the state was changed outside the log, as by a restore of Redis: take a new base"

// apartGuess is the reason for a learner in apart.
const apartGuess = "its learner continues from other partitions' state that cannot be reproduced"

// leftOut is the reason for rankings whose owner omitted observations from its headers.
const leftOut = "an owner omitted observations from its headers"

const afterContradiction = "behind a ranking that was different"

func (p *replayed) again(r *Ranking) error {
	d := &decision{Ranking: r}
	if r.Order > 0 {
		return p.order(d)
	}
	if err := p.read(d); err != nil {
		return err
	}
	d.id, d.offset, d.time = string(p.said.ID), p.said.Decision.Offset, p.said.Time
	if p.time = d.time; d.offset < p.from {
		return nil // in the base
	}
	same, made, err := p.make(d)
	if p.broken != "" {
		same, err, p.broken = false, contradicts("%s", p.broken), ""
	}
	var u *inexact
	switch {
	case errors.As(err, &u):
		p.mixed = p.mixed || p.machine != nil && !u.contradiction
		p.lost = u.why
		p.machine, p.pending = nil, nil
		p.published[p.number].over = true
		if u.contradiction {
			p.lost, made = "", []byte(u.why)
		}
	case err != nil:
		return err
	}
	p.decided = append(p.decided, d)
	p.count(d, same, made)
	if u != nil && u.contradiction {
		p.lost = afterContradiction
	}
	return nil
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
		p.mixed = p.mixed || p.machine != nil && !u.contradiction
		p.lost, p.machine, p.pending = u.why, nil, nil
		p.published[p.number].over = true
		if u.contradiction {
			p.broken = u.why
		}
	}
	p.decided = append(p.decided, d)
	return nil
}

func (p *replayed) read(d *decision) error {
	if err := p.decoder.Ranking(&p.said, d.Value); err != nil {
		return fmt.Errorf("the ranking at offset %d: %w", d.Offset, err)
	}
	return nil
}

// count counts a ranking.
func (p *replayed) count(d *decision, same bool, made []byte) {
	m := Made{Partition: p.number, Ranking: d.Ranking, ID: d.id, Impression: d.offset, Time: d.time, Same: same,
		NotExact: p.lost}
	if p.behind.began && m.NotExact == "" {
		m.NotExact = beforeBase
	}
	if m.NotExact == "" && !same && made == nil {
		m.NotExact = p.knows.unsure
	}
	if m.NotExact == "" && !same && p.guesses && p.apart[string(p.said.Learner)] {
		m.NotExact = apartGuess
	}
	if m.NotExact == "" && !same && p.mixed {
		m.NotExact = outside
	}
	p.result.Rankings++
	switch {
	case same:
		p.result.Same++
	case m.NotExact != "":
		p.result.NotExact[m.NotExact]++
		if p.behindGap(m.NotExact) {
			p.result.LeftOut++
		}
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

// behindGap reports whether a reason comes from omitted observations, of this partition or of one that it had read.
func (p *replayed) behindGap(why string) bool {
	if why == leftOut {
		return true
	}
	return why == p.knows.unsure && slices.ContainsFunc(p.published, func(of *published) bool { return of.gap && p.knows.bad[of.source] })
}

// make repeats the owners' work since the last ranking, and makes this one.
func (p *replayed) make(d *decision) (same bool, made []byte, err error) {
	seen, err := p.see(d.Seen)
	if err != nil {
		return false, nil, err
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
		p.passed = p.passed || len(p.decided) == 0
		return false, nil, notExact("%s", p.lost)
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

// see reads a header's observations.
func (p *replayed) see(seen []byte) (all []partition.Observation, err error) {
	for reader := partition.NewSeenReader(seen); ; {
		s, ok, err := reader.Next()
		if err != nil {
			return nil, notExact("%v", err)
		}
		if !ok {
			return all, nil
		}
		all = append(all, s)
	}
}
