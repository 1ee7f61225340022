package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// has reports whether an owner began with a state that the log leads to. That is the last one stored, a checkpoint that may have been, or
// segments sealed since. With any other the store went back.
func (p *replayed) has(b *partition.ObservationBegin) bool {
	switch {
	case p.image == nil || b.Unknown:
		return false
	case b.Fresh:
		return p.image.seal == seal{}
	}
	s := seal{b.LoadedWriter, b.LoadedSeal}
	return s == p.image.seal || p.sent.ends(s) || slices.ContainsFunc(p.unsent, func(x sealed) bool { return x.seal == s })
}

// leadsTo fails unless the observations before another owner began are the present owner's, and lead to the other one's state. An owner that
// omitted observations keeps its own beginning alone.
func (p *replayed) leadsTo(b *partition.ObservationBegin, before, after []partition.Observation) error {
	seals := p.seals
	for i := range before {
		switch before[i].Kind {
		case partition.SeenSealed:
			seals++
		case partition.SeenLost:
			return notExact(leftOut)
		}
	}
	switch {
	case !b.Fresh && !b.Unknown && b.LoadedWriter == p.writer && b.LoadedSeal == seals:
		return nil
	case len(after) > 0 && after[0].Kind == partition.SeenLost:
		return notExact(leftOut)
	}
	return notExact(outside)
}

// start makes the machine of a new owner, for which has is true.
func (p *replayed) start(b *partition.ObservationBegin) error {
	cfg := p.cfg.Machine(p.number)
	if why := stranger(&cfg, b); why != "" {
		return notExact("%s", why)
	}
	if err := p.settle(b); err != nil {
		return err
	}
	cfg.Salt = b.Salt
	if err := p.load(&cfg, b.Alone); err != nil {
		return err
	}
	p.writer, p.seals, p.seq, p.pos = b.Writer, b.LoadedSeal, b.Seq, b.Inputs
	p.acted, p.visited = b.Watermark, 0
	return p.whereLoaded()
}

// stranger returns why an owner's rankings cannot be made with a configuration; empty if they can.
func stranger(cfg *partition.Config, b *partition.ObservationBegin) string {
	switch {
	case cfg.Program != b.Program && b.Program != "":
		return fmt.Sprintf("%sby %s, and this is %s", byStranger, b.Program, cfg.Program)
	case cfg.Settings != b.Settings:
		return fmt.Sprintf("%swith other settings (%s; these are %s)", byStranger, b.Settings, cfg.Settings)
	}
	return ""
}

const (
	byStranger    = "the rankings were made "
	afterStranger = "the state before was made with other settings or another release: give a base taken since (`ranker-worker state base`)"
)

// lostBehind returns why rankings of later owners are not exact. Behind owners with other settings the reason differs by owner.
func lostBehind(lost string, cfg partition.Config, seen []partition.Observation) string {
	for i := range seen {
		if seen[i].Kind == partition.SeenBegun && (lost == afterStranger || strings.HasPrefix(lost, byStranger)) {
			lost = cmp.Or(stranger(&cfg, &seen[i].Begin), afterStranger)
		}
	}
	return lost
}

// load makes a machine from the image; alone says that it has no pooled state.
func (p *replayed) load(cfg *partition.Config, alone bool) error {
	if cfg.Names, cfg.Pooled = p.names, nil; !alone {
		cfg.Pooled = partition.NewPooledState(cfg.Learners, cfg.Names)
	}
	m, err := partition.New(*cfg)
	if err != nil {
		return err
	}
	if err := p.image.load(m); err != nil {
		return notExact("loading the state: %v", err)
	}
	p.machine, p.lost, p.published[p.number].over = m, "", ""
	p.since, p.pending, p.ranked, p.behind = 0, nil, false, behind{}
	p.pooled = newPooledReplay(cfg, len(p.cfg.Logs))
	if p.unsure = p.image.unsure; p.unsure {
		p.pooled.unsure, p.pooled.loaded = estimatesUnknown, true
	}
	return nil
}

// whereLoaded finds the loaded state's progress towards its next ranking.
func (p *replayed) whereLoaded() error {
	done, anchor, err := p.machine.Unranked()
	if err != nil {
		return notExact("%v", err)
	}
	p.loaded = loaded{first: true, done: done, anchor: anchor}
	return nil
}

// settle brings the image to the state that an owner began with. Later checkpoints were never stored.
func (p *replayed) settle(b *partition.ObservationBegin) error {
	s := seal{b.LoadedWriter, b.LoadedSeal}
	if at := slices.IndexFunc(p.unsent, func(x sealed) bool { return x.seal == s }); at >= 0 {
		if err := p.sendUnsent(at+1, b.Seq); err != nil {
			return err
		}
	}
	if p.sent.ends(s) {
		p.stored()
	}
	p.sent, p.unsent = nil, nil
	if !b.Fresh && p.image.seq != b.Seq {
		return notExact(outside)
	}
	p.published[p.number].head = p.image.published
	return nil
}

// sendUnsent makes checkpoints up to seq of the first n unsent segments: one for each, or if there are fewer checkpoints, one for all.
func (p *replayed) sendUnsent(n int, seq int64) error {
	switch more := seq - p.seq; {
	case more < 1 || more > int64(n):
		return notExact(outside)
	case more == int64(n):
		for range n {
			p.send(1)
		}
	default:
		p.seq = seq - 1
		p.send(n)
	}
	return nil
}

func (p *replayed) seal() {
	x := sealed{inputs: p.pos, orders: p.machine.Orders()}
	x.segment, _ = p.machine.Seal(&x.changes)
	p.unsure = p.unsure || p.pooled.unsure != ""
	x.unsure = p.unsure
	p.seals++
	x.seal = seal{p.writer, p.seals}
	p.unsent = append(p.unsent, x)
}

// send makes a checkpoint of the oldest n segments. The one before it was stored, since an owner has only one in flight.
func (p *replayed) send(n int) {
	p.stored()
	p.seq++
	c := &checkpoint{stamp: stamp{p.unsent[n-1].writer, p.seq}, segments: slices.Clone(p.unsent[:n])}
	p.unsent = p.unsent[n:]
	c.published = p.published[p.number].add(c.stamp, c.segments, p.tainted)
	p.sent, p.news = c, true
	if p.cfg.Sent == nil {
		return
	}
	var all []*state.Changes
	for i := range c.segments {
		all = append(all, &c.segments[i].changes)
	}
	unsure := c.segments[n-1].unsure
	p.cfg.Sent(p.number, c.writer, c.seq, all, func(hash string) bool {
		learner, of, _ := strings.Cut(hash, ":")
		return !(unsure && of == delay.HashLearner) && !(p.tainted && p.apart[learner])
	})
}

// stored applies the checkpoint in flight, if there is one, to the image.
func (p *replayed) stored() {
	c := p.sent
	if c == nil {
		return
	}
	p.sent = nil
	for i := range c.segments {
		x := &c.segments[i]
		p.image.apply(&x.changes)
		p.image.position = position{c.seq, x.seal, x.inputs, x.orders, x.unsure, c.published}
		p.machine.Forget(x.segment)
	}
	p.decided = behindCut(p.decided, p.image.inputs[event.Impressions], p.image.orders)
}

// look applies the observations at this point. With untilSeen, ended reports that there are no more.
func (p *replayed) look(untilSeen bool) (ended bool, err error) {
	for len(p.pending) > 0 && p.pending[0].Records <= p.since {
		s := p.pending[0]
		if s.Records < p.since && s.Kind != partition.SeenLost { // records before a gap are not counted
			return false, notExact(outside)
		}
		p.pending, p.since = p.pending[1:], 0
		if err := p.observe(&s); err != nil {
			return false, err
		}
	}
	return untilSeen && len(p.pending) == 0, nil
}

func (p *replayed) observe(s *partition.Observation) error {
	p.tainted = p.tainted || p.pooled.unsure != ""
	switch s.Kind {
	case partition.SeenWatermark:
		p.acted += s.By
		p.machine.Raise(p.acted)
		p.machine.Act()
	case partition.SeenVisit:
		p.visited += s.Offset
		id, known := p.ids[p.visited]
		if !known {
			return notExact(outside)
		}
		return p.visit(id)
	case partition.SeenEnd:
		return p.visit(s.End)
	case partition.SeenWalked:
		p.machine.WalkOn(s.N)
	case partition.SeenSealed:
		p.seal()
	case partition.SeenSent:
		if has := &p.behind.unsent; *has > 0 {
			if *has -= s.N; *has < 0 {
				return notExact(outside)
			}
			return nil
		}
		if int(s.N) > len(p.unsent) {
			return notExact(outside)
		}
		p.send(int(s.N))
	case partition.SeenEpoch:
		return p.turn(s)
	case partition.SeenStand:
		if err := p.stands(s); err != nil {
			return err
		}
		p.machine.Stand()
	case partition.SeenLost:
		return notExact(leftOut)
	}
	return nil
}

func (p *replayed) visit(id state.ID) error {
	var found partition.Found
	if found, p.places = p.image.find(p.machine, p.places, id); p.machine.Visit(id, found) != nil {
		return notExact(outside)
	}
	return nil
}
