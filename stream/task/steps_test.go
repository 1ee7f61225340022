package task

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// secondReading is a naive program that reads the log of rankings and, between two of them, processes the records of the
// header's steps in order. So it computes each record's outcome at its first step, whatever died since. It shares
// only the token reader with the machine, and handles learners of one kind, of which the first payoff counts.
type secondReading struct {
	b       *broker
	t       times
	w       int64 // event time
	tales   map[string]*tale
	at      [event.Inputs]int64
	account map[string]int64
}

// tale is the state of one impression id.
type tale struct {
	ranked, selectedOnce bool
	ended                string
	forgotten            int64 // when, once it has ended
	shown                []string
	selected             string
	began                int64
	selectBy, payBy      int64
	waiting              []waitingPart
}

type waitingPart struct {
	topic       event.Topic
	r           *foldRecord
	at, through int64
}

// errOpen: the steps do not say in which order something was taken in.
var errOpen = errors.New("the order of steps is not known")

func readAgain(b *broker, t times) (*secondReading, error) {
	s := &secondReading{b: b, t: t, tales: map[string]*tale{}, account: map[string]int64{}}
	for at, l := range b.rankings {
		if l.marker || l.producer.ID == foreignID {
			continue
		}
		var r struct {
			ID       string `json:"impression_id"`
			Items    []string
			Decision struct {
				Offset   int64
				SelectBy string `json:"selection_deadline"`
				PayBy    string `json:"payoff_deadline"`
				Began    string
			}
		}
		if l.value != nil {
			if err := json.Unmarshal(l.value, &r); err != nil {
				return nil, err
			}
		}
		from, steps, err := partition.ParseSteps(nil, stepsOf(l.headers))
		if err != nil {
			return nil, err
		}
		if from != s.w {
			return nil, fmt.Errorf("the steps of the ranking at %d begin at event time %d, those before end at %d", at, from, s.w)
		}
		if err := s.take(steps); err != nil {
			return nil, fmt.Errorf("before the ranking at %d: %w", at, err)
		}
		if l.value == nil { // an order record
			continue
		}
		if err := s.next(event.Impressions, func(rec *foldRecord, offset, _ int64) error {
			if rec.ID != r.ID || offset != r.Decision.Offset {
				return fmt.Errorf("the ranking at %d is of %s at %d, the steps lead to %s at %d", at, r.ID, r.Decision.Offset, rec.ID, offset)
			}
			return nil
		}); err != nil {
			return nil, err
		}
		x := s.settled(r.ID)
		if x.ranked {
			return nil, fmt.Errorf("%s is ranked again while it is known", r.ID)
		}
		x.ranked, x.shown = true, r.Items
		x.selectBy, _ = event.ParseTime([]byte(r.Decision.SelectBy))
		x.began, _ = event.ParseTime([]byte(r.Decision.Began))
		x.payBy, _ = event.ParseTime([]byte(r.Decision.PayBy))
		s.retry(x, event.Selections)
		s.retry(x, event.Payoffs)
	}
	return s, nil
}

// next gives the next record of a topic that a reader of committed records sees.
func (s *secondReading) next(t event.Topic, do func(r *foldRecord, offset, at int64) error) error {
	for ; s.at[t] < int64(len(s.b.inputs[t])); s.at[t]++ {
		if l := &s.b.inputs[t][s.at[t]]; !l.marker && !l.aborted {
			r, err := parseRecord(l.value)
			if err != nil {
				return err
			}
			s.account[roleOf(t)+".read"]++
			s.at[t]++
			return do(r, s.at[t]-1, l.timestamp)
		}
	}
	return fmt.Errorf("the steps go beyond the end of topic %d", t)
}

func roleOf(t event.Topic) string {
	return [...]string{"impressions", "selections", "payoffs"}[t]
}

func (s *secondReading) take(steps []partition.InputStep) error {
	for _, step := range steps {
		switch step.Kind {
		case partition.StepWatermark:
			s.w += step.By
		case partition.StepRead:
			for t, offset := range step.Offsets {
				for ; s.at[t] < offset; s.at[t]++ {
					if l := &s.b.inputs[t][s.at[t]]; !l.marker && !l.aborted {
						return fmt.Errorf("%w: %d at %d of %d, %s", errOpen, t, s.at[t], offset, l.value)
					}
				}
			}
			s.w = step.Watermark
		case partition.StepTake:
			for range step.N {
				err := s.next(step.Topic, func(r *foldRecord, _, at int64) error {
					if step.Timed {
						at = s.w + step.By
					}
					if step.Crowded {
						s.count(step.Topic, "orphan")
						return nil
					}
					s.record(step.Topic, r, at)
					return nil
				})
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (s *secondReading) count(t event.Topic, outcome string) { s.account[roleOf(t)+"."+outcome]++ }

func (s *secondReading) record(t event.Topic, r *foldRecord, at int64) {
	_, number := r.Payoff.(float64)
	switch {
	case t == event.Impressions && len(r.Candidates) == 0, t == event.Payoffs && !number:
		s.count(t, "rejected")
	case t == event.Impressions && s.settled(r.ID).ranked:
		s.count(t, "duplicate")
	case t == event.Impressions:
		s.count(t, "rejected")
	default:
		x := s.settled(r.ID)
		part := waitingPart{topic: t, r: r, at: at, through: max(at, s.w) + s.t.parking.Milliseconds()}
		if s.answer(x, &part) {
			x.waiting = append(x.waiting, part)
		}
	}
}

// answer processes a selection or payoff; it reports whether it has to wait.
func (s *secondReading) answer(x *tale, p *waitingPart) (waits bool) {
	payoff, _ := p.r.Payoff.(float64)
	joins := false
	outcome := ""
	switch selection := p.topic == event.Selections; {
	case !x.ranked:
		return true
	case x.ended != "" && (selection && x.selectedOnce || !selection && x.ended == "paid"):
		outcome = "duplicate"
	case x.ended != "":
		outcome = "late"
	case selection && x.selected != "":
		outcome = "duplicate"
	case selection && !slices.Contains(x.shown, p.r.Item), !selection && (payoff < 0 || payoff > 1):
		outcome = "rejected"
	case selection && p.at > min(x.selectBy, x.payBy), !selection && p.at > x.payBy:
		outcome = "late"
	case selection:
		outcome, joins = "joined", true
		x.selected, x.selectedOnce = p.r.Item, true
	case x.selected == "":
		return true
	default:
		outcome = "applied"
		s.end(x, "paid")
		s.count(event.Impressions, "paid")
	}
	s.count(p.topic, outcome)
	if joins {
		s.retry(x, event.Payoffs)
	}
	return false
}

// retry processes waiting records again.
func (s *secondReading) retry(x *tale, t event.Topic) {
	parts := x.waiting
	x.waiting = nil
	var left []waitingPart
	for i := range parts {
		if parts[i].topic != t || s.answer(x, &parts[i]) {
			left = append(left, parts[i])
		}
	}
	x.waiting = append(left, x.waiting...)
}

// settled is the tale of an id as event time has left it.
func (s *secondReading) settled(id string) *tale {
	x := s.tales[id]
	if x == nil {
		x = &tale{}
		s.tales[id] = x
	}
	if !x.ranked {
		x.waiting = slices.DeleteFunc(x.waiting, func(p waitingPart) bool {
			if s.w > p.through {
				s.count(p.topic, "orphan")
			}
			return s.w > p.through
		})
		return x
	}
	if x.ended == "" && (s.w > x.payBy || x.selected == "" && s.w > x.selectBy) {
		how := "expired"
		if x.selected == "" {
			how = "unselected"
		}
		s.end(x, how)
		s.count(event.Impressions, how)
		for _, p := range x.waiting {
			s.count(p.topic, "orphan")
		}
		x.waiting = nil
	}
	if x.ended != "" && s.w >= x.forgotten {
		*x = tale{}
	}
	return x
}

// end notes that an impression has ended: at its deadline, or by its payoff now. It is remembered from then on, to the end of ten
// seconds of the clock.
func (s *secondReading) end(x *tale, how string) {
	at := min(s.w, x.payBy)
	if x.selected == "" {
		at = min(at, x.selectBy)
	}
	at = max(at, x.began)
	x.ended, x.forgotten = how, ((at+s.t.remember.Milliseconds())/10_000+1)*10_000
}

// compare holds a stored account, of a partition whose records have all ended, against the tale's end.
func (s *secondReading) compare(meta map[string][]byte) error {
	s.w = math.MaxInt64 / 2
	for id := range s.tales {
		s.settled(id)
	}
	for _, name := range []string{
		"impressions.read", "impressions.paid", "impressions.expired", "impressions.unselected", "impressions.duplicate", "impressions.rejected",
		"selections.read", "selections.joined", "selections.duplicate", "selections.late", "selections.orphan", "selections.rejected",
		"payoffs.read", "payoffs.applied", "payoffs.duplicate", "payoffs.late", "payoffs.orphan", "payoffs.rejected",
	} {
		stored, _ := strconv.ParseInt(string(meta["account."+name]), 10, 64)
		if stored != s.account[name] {
			return fmt.Errorf("%s are %d, but by the steps in the log %d", name, stored, s.account[name])
		}
	}
	return nil
}
