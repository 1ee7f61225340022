package task

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// acquire takes the partition over: heartbeat, token, fence, checks, load, then replay; see
// docs/contribute/ownership.md. Loading after the fence is safe: from the token on no other worker can change the state.
func (t *Task) acquire() {
	t.begin()
	t.phase, t.reason, t.stops.again = Acquiring, "", 0
	t.acq = &acquisition{logProducers: t.logProducers}
	ask(t, "asking the coordinator whether our generation lives", callTimeout, Heartbeat{}, func(nothing) {
		t.takeOver(false, nil, nil)
	})
}

// takeOver writes a new token. If the stored generation is higher, the coordinator has assigned the
// partition to a later owner, or the group was deleted and counts from the start again. The latter
// is assumed after a session timeout of good heartbeats, since a later owner would make ours fail.
//
// An empty store is a beginning (fresh is the first cut), or a loss (lost names the signs of an earlier run).
// The signs may come from an owner that began just now, so the store is asked once more after they were seen.
func (t *Task) takeOver(force bool, fresh *state.Meta, lost error) {
	t.doing = "taking over the stored state"
	send(t, callTimeout, Acquire{Force: force, Fresh: fresh}, func(meta state.Meta, err error) {
		switch {
		case err == nil:
			t.failures.clear(t.doing)
			t.acq.meta = meta
			t.began = t.began || fresh != nil
			t.checkFit(cutOf(&t.acq.meta), false, func(bool) {
				t.failures.clear(checking)
				t.fence(noProducer, t.describeAndCheck)
			})
		case errors.Is(err, state.ErrNoState) && lost != nil:
			t.stop(StopNoState, lost)
		case errors.Is(err, state.ErrNoState) && fresh == nil:
			t.seekEarlierRun(force)
		case errors.Is(err, state.ErrGeneration):
			t.err = err
			t.heartbeats(t.now.Mono + t.cfg.SessionTimeout)
		default:
			t.failed(t.doing, err, func() { t.takeOver(force, fresh, lost) })
		}
	})
}

func (t *Task) heartbeats(until time.Duration) {
	ask(t, "waiting a session timeout before taking over from a higher generation", callTimeout, Heartbeat{}, func(nothing) {
		if t.now.Mono >= until {
			t.takeOver(true, nil, nil)
			return
		}
		t.after(max(t.cfg.SessionTimeout/10, 10*time.Millisecond), func() { t.heartbeats(until) })
	})
}

const lostStateAdvice = "stop the workers and restore the store, or rebuild its state from the topics with `ranker-worker " +
	"state rebuild`, or start afresh under a new kafka.group"

// seekEarlierRun looks for signs that this group has run before. With any, an empty store is a loss and not a beginning.
func (t *Task) seekEarlierRun(force bool) {
	ask(t, "reading the group's committed offsets", callTimeout, Committed{}, func(offsets []int64) {
		for topic, offset := range offsets {
			if offset >= 0 {
				t.takeOver(force, nil, fmt.Errorf("%w, but group %q has committed offset %d of topic %q: %s", state.ErrNoState,
					t.cfg.Group, offset, t.cfg.TopicNames[topic], lostStateAdvice))
				return
			}
		}
		ask(t, "describing the topics", callTimeout, Describe{}, func(d Description) {
			reason, err := t.cfg.checkTopics(&d)
			if err == nil {
				reason, err = d.letterFaults().first()
			}
			if err != nil {
				t.recheckFresh(reason, err, force)
				return
			}
			r := d.Topics[event.Rankings]
			t.scan(force, &d, r.LogStart)
		})
	})
}

// recheckFresh looks again a second later: a topic may just be being created.
func (t *Task) recheckFresh(reason StopReason, err error, force bool) {
	if t.acq.facts.Topics != nil {
		t.stop(reason, err)
		return
	}
	t.acq.facts.Topics = make([]TopicFacts, event.Topics)
	t.err = err
	t.after(checkAgain, func() { t.seekEarlierRun(force) })
}

const scanning = "looking for rankings of this group"

// scan reads rankings[p] for a record of this group, and begins from scratch if there is none.
func (t *Task) scan(force bool, d *Description, from int64) {
	r := d.Topics[event.Rankings]
	if from >= r.End {
		fresh := d.Beginning(t.cfg.StartLatest)
		for topic := range t.skipped {
			if t.cfg.reads(event.Topic(topic)) {
				t.skipped[topic] = fresh.Inputs[topic].Offset - d.Topics[topic].LogStart
			}
		}
		t.takeOver(force, fresh, nil)
		return
	}
	t.read(scanning, loadTimeout, t.fetchFrom(event.Rankings, from), func(f *Fetched, err error) {
		if err != nil {
			t.failed(scanning, err, func() { t.seekEarlierRun(force) })
			return
		}
		dec := newRankingDecoder()
		for i := range f.Records {
			var r event.Ranking
			mine, _ := ours(dec, &r, f.Records[i].Value, t.cfg.Group)
			if !mine && t.rankedBy == "" {
				t.rankedBy = strings.Clone(r.Decision.Group)
			}
			if mine {
				t.takeOver(force, nil, fmt.Errorf("%w, but %s[%d] holds a ranking of group %q at offset %d: %s", state.ErrNoState,
					t.cfg.TopicNames[event.Rankings], t.cfg.Partition, t.cfg.Group, f.Records[i].Offset, lostStateAdvice))
				return
			}
		}
		if f.Next <= from { // the broker sends nothing yet
			t.after(t.failures.note(scanning, ErrNothingRead, t.now.Mono), func() { t.scan(force, d, from) })
			return
		}
		t.scan(force, d, f.Next)
	})
}

// describeAndCheck compares broker and store with the cut, then loads the state.
func (t *Task) describeAndCheck() {
	t.check(cutOf(&t.acq.meta), t.load)
}

func (t *Task) load() {
	machine, err := t.cfg.NewMachine(t.acq.facts.maxRankingBytes())
	if err != nil {
		t.stop(StopLearner, fmt.Errorf("making the machine: %w", err))
		return
	}
	ask(t, "loading the stored state", loadTimeout, Load{Hashes: machine.Hashes()}, func(fields []state.Field) {
		// Fields come without a fence: a rollback of the store since the take-over would go unnoticed.
		ask(t, "making sure of the loaded state", callTimeout, Probe{}, func(f state.Fence) {
			if f != t.acq.meta.Fence {
				t.restart(fmt.Errorf("%w: it changed while it was loaded", state.ErrFenced))
				return
			}
			t.loaded(machine, fields)
		})
	})
}

func (t *Task) loaded(machine *partition.Machine, fields []state.Field) {
	for _, f := range fields {
		if err := machine.Load(f); err != nil {
			reason := StopState
			if errors.Is(err, partition.ErrLearner) {
				reason = StopLearner
			}
			t.stop(reason, fmt.Errorf("loading field %q of %q: %w", f.Field, f.Hash, err))
			return
		}
	}
	if err := machine.Loaded(); errors.Is(err, partition.ErrLearner) {
		t.stop(StopLearner, err)
		return
	} else if err != nil {
		t.stop(StopState, err)
		return
	}
	t.start(machine)
}
