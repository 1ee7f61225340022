package replay

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// adopted returns the decisions that a new owner finds in the log.
func (p *replayed) adopted() []*decision {
	return slices.Clone(behindCut(p.decided, p.pos[event.Impressions], p.machine.Orders()))
}

// behindCut returns the decisions and order records that are not in a state: those after its offset of impressions, and its last order
// record.
func behindCut(all []*decision, impressions, orders int64) []*decision {
	at := slices.IndexFunc(all, func(d *decision) bool {
		return d.Order > orders || d.Order == 0 && d.offset >= impressions
	})
	if at < 0 {
		return nil
	}
	return all[at:]
}

// follow processes the owner's input up to the last target, which it ranked; it adopted the earlier ones. With untilSeen it ends when all
// observations have been applied. It returns the remaining targets.
func (p *replayed) follow(targets []*decision, untilSeen bool) ([]*decision, error) {
	for k, d := range targets {
		own := k == len(targets)-1
		w, steps, err := partition.ParseSteps(nil, d.Steps)
		if err != nil || d.Steps == nil {
			return nil, notExact("a ranking has no header with its steps")
		}
		from := 0
		if a := p.loaded.anchor; p.loaded.first && a != nil {
			from = slices.IndexFunc(steps, func(s partition.InputStep) bool { return s.Kind == partition.StepRead && s.Offsets == a.Offsets })
			if from < 0 {
				return nil, notExact("the header with a ranking's steps has no beginning")
			}
			w = 0 // set by the step
		}
		for i := from; i < len(steps); i++ {
			ended, err := p.do(&steps[i], &w, own, untilSeen)
			if ended || err != nil {
				return targets[k:], err
			}
		}
		if ended, err := p.look(untilSeen); ended || err != nil {
			return targets[k:], err
		}
		if own {
			if untilSeen {
				return nil, notExact(outside)
			}
			p.machine.Raise(w)
			return nil, nil
		}
		if err := p.adopt(d, w); err != nil {
			return nil, err
		}
		p.loaded.first = false
	}
	return nil, nil
}

// do processes a step, or a run of equal ones. w is the watermark of the steps.
func (p *replayed) do(s *partition.InputStep, w *event.Millis, own, untilSeen bool) (ended bool, err error) {
	switch s.Kind {
	case partition.StepWatermark:
		*w += s.By
	case partition.StepRead:
		if own {
			if ended, err := p.look(untilSeen); ended || err != nil {
				return ended, err
			}
			if p.ranked { // only a beginning owner records this, or one that records no order
				return false, notExact("an owner's headers lack observations, or their order")
			}
		}
		*w = s.Watermark
		for t, offset := range s.Offsets {
			if p.pos[t] >= offset {
				continue
			}
			if left, err := between(p.log, event.Topic(t), p.pos[t], offset); err != nil || left {
				return false, cmp.Or(err, notExact("the order of records is not in the headers"))
			}
			p.pos[t] = offset
		}
		if own {
			p.machine.Begin(s.Offsets, true)
		}
	case partition.StepTake:
		for range s.N {
			if done := &p.loaded.done[s.Topic]; *done > 0 {
				*done--
				continue
			}
			if ended, err := p.look(untilSeen); ended || err != nil {
				return ended, err
			}
			one := *s
			if err := p.take(&one, *w, !own); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// between reports whether a topic has a record from one offset on and before another.
func between(log Log, t event.Topic, from, to int64) (bool, error) {
	rec, err := log.Record(t, from)
	return rec != nil && rec.Offset < to, err
}

// take processes the next record of a topic.
func (p *replayed) take(s *partition.InputStep, w event.Millis, adopting bool) error {
	rec, err := p.log.Record(s.Topic, p.pos[s.Topic])
	if err != nil {
		return err
	}
	if rec == nil {
		return notExact("topics lack records that were processed")
	}
	p.machine.Raise(w)
	again := partition.InputStep{Kind: s.Kind, Topic: s.Topic, N: 1, Crowded: s.Crowded, Timed: s.Timed, By: s.By}
	return p.step(&partition.Input{Record: rec, Again: &again, RefusedEarlier: adopting && s.Topic == event.Impressions})
}

func (p *replayed) step(in *partition.Input) error {
	id := state.IDOf(in.Record.Key)
	in.ID = &id
	in.Found, p.places = p.image.find(p.machine, p.places, id)
	p.out.Reset()
	p.tainted = p.tainted || p.pooled.unsure != ""
	if err := p.machine.Step(in, &p.out); err != nil {
		return contradicts("processing the record at offset %d of topic %d: %v", in.Record.Offset, in.Record.Topic, err)
	}
	p.pos[in.Record.Topic] = in.Record.Offset + 1
	p.since++
	p.acted = p.machine.Watermark()
	if in.Record.Topic == event.Impressions && (len(p.out.Rankings) > 0 || in.Decided != nil) {
		p.ids[in.Record.Offset] = id
	}
	return nil
}

// impression returns the record of a decision, which must be the next one.
func (p *replayed) impression(d *decision) (*partition.Record, error) {
	rec, err := p.log.Record(event.Impressions, p.pos[event.Impressions])
	switch {
	case err != nil:
		return nil, err
	case rec == nil || rec.Offset > d.offset:
		return nil, notExact("topics lack an impression that was ranked")
	case rec.Offset < d.offset:
		return nil, contradicts("the steps lead to the impression at offset %d, ranked was that at %d", rec.Offset, d.offset)
	}
	return rec, nil
}

func (p *replayed) adopt(d *decision, w event.Millis) error {
	if d.Order > 0 {
		p.machine.Raise(w)
		p.machine.TakeOrder(d.Order)
		return nil
	}
	rec, err := p.impression(d)
	if err != nil {
		return err
	}
	p.machine.Raise(w)
	return p.stepDecided(d, rec)
}

func (p *replayed) stepDecided(d *decision, rec *partition.Record) error {
	if err := p.read(d); err != nil {
		return err
	}
	return p.step(&partition.Input{Record: rec, Decided: &p.said, Again: &partition.InputStep{}})
}

// rank makes the ranking.
func (p *replayed) rank(d *decision) (same bool, made []byte, err error) {
	rec, err := p.impression(d)
	if err != nil {
		return false, nil, err
	}
	if p.cfg.Before != nil {
		p.machine.Act()
		p.cfg.Before(&Moment{p.number, p.machine, d.Ranking, rec, p.pooled.stand()})
	}
	if p.why(d) != "" {
		return false, nil, p.stepDecided(d, rec)
	}
	again := partition.InputStep{Timed: true, By: d.time - p.machine.Watermark()}
	if err := p.step(&partition.Input{Record: rec, Again: &again}); err != nil {
		return false, nil, err
	}
	if len(p.out.Rankings) == 0 {
		return false, nil, contradicts("the impression was ranked, and is not ranked now")
	}
	made = p.out.Rankings[0].Value
	return bytes.Equal(made, d.Value), made, nil
}
