package replay

import (
	"slices"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// has reports whether the replay has the state that an owner began with, and the decisions that it adopts.
func (p *replayed) has(b *partition.ObservationBegin) bool {
	if b.Fresh {
		return !p.passed && b.Inputs[event.Impressions] >= p.cut.inputs[event.Impressions] && p.cut.orders == 0
	}
	if b.Unknown {
		return false
	}
	s := seal{b.LoadedWriter, b.LoadedSeal}
	if s == p.image.seal || slices.ContainsFunc(p.undo, func(u undo) bool { return u.seal == s }) {
		return true
	}
	for i := range p.checkpoints {
		if segments := p.checkpoints[i].segments; segments[len(segments)-1].seal == s {
			return true
		}
	}
	return slices.ContainsFunc(p.unsent, func(x sealed) bool { return x.seal == s })
}

// leadsTo fails unless the observations before another owner began are the present owner's, and lead to the other one's state. After a
// store that went back, headers hold another owner's observations. An owner that omitted observations keeps its own beginning alone.
func (p *replayed) leadsTo(b *partition.ObservationBegin, before, after []partition.Observation) error {
	seals := p.seals
	for i := range before {
		switch before[i].Kind {
		case partition.SeenSealed:
			seals++
		case partition.SeenLost:
			return p.leaves()
		}
	}
	switch {
	case !b.Fresh && !b.Unknown && b.LoadedWriter == p.writer && b.LoadedSeal == seals:
		return nil
	case len(after) > 0 && after[0].Kind == partition.SeenLost:
		return p.leaves()
	}
	return notExact(outside)
}

// leaves records that an owner omitted observations from its headers.
func (p *replayed) leaves() error {
	p.published[p.number].gap = true
	return notExact(leftOut)
}

// start makes the machine of a new owner, for which has is true.
func (p *replayed) start(b *partition.ObservationBegin) error {
	cfg := p.cfg.Machine(p.number)
	if cfg.Program != b.Program && b.Program != "" {
		return notExact("the rankings were made by %s, and this is %s", b.Program, cfg.Program)
	}
	if cfg.Settings != b.Settings {
		return notExact("the rankings were made with other settings (%s; these are %s)", b.Settings, cfg.Settings)
	}
	if err := p.goBack(b); err != nil {
		return err
	}
	if err := p.image.readAsFar(p.log, b); err != nil {
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

// readAsFar fails unless the state that an owner began with has the same records in the log. A store that went back may lead to a state whose
// last records were stepped in an order that no header has: decisions of later owners, which were adopted, restarted its steps.
func (g *image) readAsFar(log Log, b *partition.ObservationBegin) error {
	if b.Fresh {
		return nil
	}
	for t, at := range g.inputs {
		if left, err := between(log, event.Topic(t), min(at, b.Inputs[t]), max(at, b.Inputs[t])); err != nil || left {
			return either(err, notExact(outside))
		}
	}
	return nil
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
	p.machine, p.lost, p.published[p.number].over = m, "", false
	p.published[p.number].gap = false
	p.since, p.pending, p.ranked, p.behind = 0, nil, false, behind{}
	p.knows = newKnows(cfg, len(p.cfg.Logs))
	if p.guess = p.image.guess; len(p.guess) > 0 {
		p.knows.guess()
	}
	return nil
}

// whereLoaded finds the loaded state's progress towards its next ranking.
func (p *replayed) whereLoaded() error {
	_, steps, err := partition.ParseSteps(nil, p.machine.Steps())
	if err != nil {
		return notExact("%v", err)
	}
	p.loaded = loaded{first: true}
	for i := range steps {
		if s := &steps[i]; s.Kind == partition.StepTake {
			p.loaded.done[s.Topic] += s.N
		}
	}
	if len(steps) > 0 && steps[0].Kind == partition.StepRead {
		p.loaded.anchor = &steps[0]
	}
	return nil
}

// goBack reverts the image to the state that an owner began with. Later checkpoints were never stored, or the store has lost them.
func (p *replayed) goBack(b *partition.ObservationBegin) error {
	of := p.published[p.number]
	if b.Fresh {
		p.image, p.undo, p.checkpoints, p.unsent = newImage(), nil, nil, nil
		p.image.published = &delta{}
		of.head = p.image.published
		return nil
	}
	s := seal{b.LoadedWriter, b.LoadedSeal}
	if at := slices.IndexFunc(p.unsent, func(x sealed) bool { return x.seal == s }); at >= 0 {
		if err := p.sendUnsent(at+1, b.Seq); err != nil {
			return err
		}
	}
	p.unsent = nil
	if at := slices.IndexFunc(p.undo, func(u undo) bool { return u.seal == s }); at >= 0 {
		for i := range slices.Backward(p.undo[at:]) {
			p.image.takeBack(&p.undo[at+i])
		}
		p.undo, p.checkpoints = p.undo[:at], nil
	}
	through := slices.IndexFunc(p.checkpoints, func(c checkpoint) bool { return c.segments[len(c.segments)-1].seal == s })
	if through >= 0 && p.checkpoints[through].seq != b.Seq || through < 0 && p.image.seq != b.Seq {
		return notExact(outside)
	}
	for i := range p.checkpoints[:through+1] {
		p.apply(&p.checkpoints[i])
	}
	p.checkpoints = nil
	of.head = p.image.published
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
	x := sealed{machine: p.machine, inputs: p.pos, orders: p.machine.Orders()}
	x.segment, _ = p.machine.Seal(&x.changes)
	p.guess = p.guess.after(x.changes.Writes, p.knows.unsure != "")
	x.guess = p.guess
	p.seals++
	x.seal = seal{p.writer, p.seals}
	p.unsent = append(p.unsent, x)
}

// send makes a checkpoint of the oldest n segments.
func (p *replayed) send(n int) {
	p.seq++
	c := checkpoint{stamp: stamp{p.unsent[n-1].writer, p.seq}, segments: slices.Clone(p.unsent[:n])}
	p.unsent = p.unsent[n:]
	c.published = p.published[p.number].add(c.stamp, c.segments)
	p.checkpoints = append(p.checkpoints, c)
	p.news = true
	if p.cfg.Sent != nil && !p.guesses && !slices.ContainsFunc(c.segments, func(x sealed) bool { return len(x.guess) > 0 }) {
		var all []*state.Changes
		for i := range c.segments {
			all = append(all, &c.segments[i].changes)
		}
		p.cfg.Sent(p.number, c.writer, c.seq, all)
	}
	if len(p.checkpoints) > kept {
		p.apply(&p.checkpoints[0])
		p.checkpoints = p.checkpoints[1:]
	}
	if more := len(p.undo) + len(p.checkpoints) - kept; more > 0 {
		clear(p.undo[:more]) // append copies the others when it grows
		p.undo = p.undo[more:]
	}
	p.cut = p.image.position
	if len(p.undo) > 0 {
		p.cut = p.undo[0].position
	}
	p.decided = behindCut(p.decided, p.cut.inputs[event.Impressions], p.cut.orders)
}

// apply stores a checkpoint in the image.
func (p *replayed) apply(c *checkpoint) {
	u := undo{position: p.image.position, pages: map[uint32]*page{}}
	for i := range c.segments {
		x := &c.segments[i]
		p.image.apply(&x.changes, &u)
		p.image.position = position{c.seq, x.seal, x.inputs, x.orders, x.guess, c.published}
		if x.machine == p.machine && p.machine != nil {
			p.machine.Forget(x.segment)
		}
	}
	p.undo = append(p.undo, u)
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
	p.guesses = p.guesses || p.knows.unsure != ""
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
		return p.stands(s)
	case partition.SeenLost:
		return p.leaves()
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
