package keep

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// fold puts the state of new partitions together from that of old ones.
//
// What learners know of old partition j goes to new partition j modulo their number, where sums are added up and queues
// of waiting payoffs put behind one another. A new partition that gets nothing so has copies of what is no sum, BOLD's
// instances, from old partition q modulo their number. What is stored under an id goes where Kafka's default partitioner
// puts the id now. Accounts go with what learners know, but for what is pending and parked, which goes with its entry.
// Holds are released. The watermark is the least of all.
type fold struct {
	k         *Keeper
	staging   *Keeper
	from, to  int
	recreated bool
	detail    string
	entries   int64

	old []*view
	new []*writer
}

// run puts the whole new state together; at its end all partitions of it are complete.
func (f *fold) run(ctx context.Context) error {
	if f.to < f.from && !f.recreated {
		return fmt.Errorf("%w (they have %d partitions, fewer than the %d of the state)", ErrRecreated, f.to, f.from)
	}
	for p := range int32(f.from) {
		if !f.recreated {
			err := f.k.catchUp(ctx, p, f.from)
			if err != nil && !errors.Is(err, state.ErrNoState) {
				return fmt.Errorf("%w; if the topics were made anew, see --recreated", err)
			}
		}
		v, err := f.k.look(ctx, p)
		if errors.Is(err, state.ErrNoState) {
			continue
		}
		if err != nil {
			return err
		}
		f.old = append(f.old, v)
	}
	if len(f.old) == 0 {
		return ErrNothing
	}
	for p := range int32(f.to) {
		w, err := f.begin(ctx, p)
		if err != nil {
			return fmt.Errorf("beginning partition %d: %w", p, err)
		}
		f.new = append(f.new, w)
	}
	for _, v := range f.old {
		if err := f.fold(ctx, v); err != nil {
			return fmt.Errorf("folding partition %d: %w", v.number, err)
		}
	}
	for _, w := range f.new {
		if err := w.finish(ctx, f); err != nil {
			return fmt.Errorf("finishing partition %d: %w", w.p, err)
		}
	}
	return nil
}

// share is how what old partition j knows goes to its home.
func (f *fold) share(j int32) (home int32, s delay.Share) {
	home = j % int32(f.to)
	s = delay.Share{Additive: true, Queues: true}
	for i := home; i < int32(f.from); i += int32(f.to) {
		if i == j {
			s.Rank = s.Of
		}
		s.Of++
	}
	return home, s
}

// fold carries an old partition over.
func (f *fold) fold(ctx context.Context, v *view) error {
	home, share := f.share(v.number)
	transfers := make([]*partition.Transfer, f.to)
	for q := range int32(f.to) {
		s := share
		s.Additive, s.Queues = q == home, q == home
		t, err := partition.NewTransfer(v.machine, f.new[q].machine, s)
		if err != nil {
			return err
		}
		transfers[q] = t
		t.Watermark()
		if q == home {
			t.Account()
		}
		if q == home || q >= int32(f.from) && q%int32(f.from) == v.number {
			if err := t.Knowledge(); err != nil {
				return err
			}
		}
	}
	of := stream.NewPartitioner(f.to).Of
	err := f.k.entries(ctx, v.number, func(id, value []byte) error {
		q := of(id)
		f.entries++
		if err := transfers[q].Entry(id, value); err != nil {
			return err
		}
		if f.entries%lookAtOnce == 0 {
			f.k.say("partition %d: %d ids carried over", v.number, f.entries)
		}
		return f.new[q].flushIfLarge(ctx)
	})
	if err != nil {
		return err
	}
	return nil
}

// begin makes an empty new partition. One that was there before goes on reading where it was, unless the topics are new.
func (f *fold) begin(ctx context.Context, p int32) (*writer, error) {
	if err := f.staging.store.Drop(ctx, p, ""); err != nil {
		return nil, err
	}
	d, err := f.k.describe(ctx, p)
	if err != nil {
		return nil, err
	}
	m := state.Meta{Layout: task.LayoutUnfinished, ClusterID: d.ClusterID, TopicNames: f.k.machine.TopicNames[:],
		Partitions: f.to, Rankings: d.Topics[event.Rankings].End, RankingsWitness: state.Witness{Offset: -1},
		ProducerID: -1, ProducerEpoch: -1}
	for topic := range event.Topic(event.Inputs) {
		m.Inputs = append(m.Inputs, state.Position{Offset: d.Topics[topic].LogStart, Witness: state.Witness{Offset: -1}})
	}
	for _, v := range f.old {
		if v.number == p && !f.recreated {
			m = v.meta
			m.Layout, m.Partitions = task.LayoutUnfinished, f.to
		}
	}
	machine, err := f.k.emptyMachine(p)
	if err != nil {
		return nil, err
	}
	return newWriter(ctx, f.staging.store, p, &m, machine)
}

// writer stores a partition from its beginning, in checkpoints of bounded size. Only the last one makes it usable.
type writer struct {
	store   state.Store
	p       int32
	meta    state.Meta
	machine *partition.Machine // nil where changes come from elsewhere
}

func newWriter(ctx context.Context, store state.Store, p int32, fresh *state.Meta, m *partition.Machine) (*writer, error) {
	meta, err := store.Acquire(ctx, p, fresh.Generation, true, fresh)
	if err != nil {
		return nil, err
	}
	return &writer{store: store, p: p, meta: meta, machine: m}, nil
}

// writeAtOnce is about how many bytes go into one checkpoint.
const writeAtOnce = 4 << 20

func (w *writer) flushIfLarge(ctx context.Context) error {
	if _, bytes := w.machine.Dirty(); bytes < writeAtOnce {
		return nil
	}
	var c state.Changes
	segment, _ := w.machine.Seal(&c)
	if err := w.write(ctx, c); err != nil {
		return err
	}
	w.machine.Forget(segment)
	return nil
}

func (w *writer) write(ctx context.Context, c state.Changes) error {
	m := w.meta
	err := w.store.Checkpoint(ctx, w.p, &state.Checkpoint{Fence: m.Fence, ID: fmt.Sprintf("%s-%d", m.Token, m.Seq+1), Meta: m, Changes: c})
	if err == nil {
		w.meta.Seq++
	}
	return err
}

// finish stores what is left, with the history, and makes the partition usable.
func (w *writer) finish(ctx context.Context, f *fold) error {
	h := partition.History{Number: w.meta.Seq + 1, Time: f.k.now().UTC().Format(time.RFC3339), Done: reshardDone, Detail: f.detail,
		Rankings: w.meta.Rankings}
	for _, in := range w.meta.Inputs {
		h.Offsets = append(h.Offsets, in.Offset)
	}
	var c state.Changes
	w.machine.Seal(&c)
	if err := h.Write(&c, nil); err != nil {
		return err
	}
	w.meta.Layout = task.Layout
	return w.write(ctx, c)
}

// reshardDone is what the history calls it.
const reshardDone = "reshard"

// lastReshard is the detail of the last time that the partition was made by Reshard.
func lastReshard(fields []state.Field) (detail string, err error) {
	past, err := partition.ReadHistory(fields)
	for _, h := range past {
		if h.Done == reshardDone {
			detail = h.Detail
		}
	}
	return detail, err
}

// shut makes workers that should start leave a partition alone until it is finished, whether it has state or not: without,
// they would take a new one for a beginning.
func (k *Keeper) shut(ctx context.Context, from *Keeper, p int32) error {
	staged, _, err := from.store.View(ctx, p, nil)
	if err != nil {
		return err
	}
	staged.Layout = task.LayoutUnfinished
	before, _, err := k.store.View(ctx, p, nil)
	if errors.Is(err, state.ErrNoState) {
		_, err = k.store.Acquire(ctx, p, staged.Generation, true, &staged)
		return err
	}
	if err != nil || before.Layout == task.LayoutUnfinished {
		return err
	}
	m, err := k.store.Acquire(ctx, p, before.Generation, true, nil)
	if err != nil {
		return err
	}
	w := writer{store: k.store, p: p, meta: m}
	w.meta.Layout = task.LayoutUnfinished
	return w.write(ctx, state.Changes{})
}

// copyPartition replaces a partition by what another keeper has of it.
func (k *Keeper) copyPartition(ctx context.Context, from *Keeper, p int32) error {
	v, err := from.look(ctx, p)
	if err != nil {
		return err
	}
	if err := k.store.Drop(ctx, p, ""); err != nil {
		return err
	}
	fresh := v.meta
	fresh.Layout = task.LayoutUnfinished
	w, err := newWriter(ctx, k.store, p, &fresh, nil)
	if err != nil {
		return err
	}
	var c state.Changes
	bytes := 0
	flush := func(limit int) error {
		if bytes < limit {
			return nil
		}
		err := w.write(ctx, c)
		c, bytes = state.Changes{}, 0
		return err
	}
	for _, f := range v.fields {
		c.Writes = append(c.Writes, state.Write{Hash: f.Hash, Field: f.Field, Value: f.Value})
		if bytes += len(f.Hash) + len(f.Field) + len(f.Value); bytes >= writeAtOnce {
			if err := flush(writeAtOnce); err != nil {
				return err
			}
		}
	}
	err = from.entries(ctx, p, func(id, value []byte) error {
		bucket, err := partition.BucketOf(value)
		if err != nil {
			return err
		}
		c.Entries = append(c.Entries, state.Entry{ID: id, Value: value})
		c.Due = append(c.Due, state.Due{Bucket: bucket, ID: id})
		bytes += 2*len(id) + len(value) + 64
		return flush(writeAtOnce)
	})
	if err != nil {
		return err
	}
	w.meta.Layout = task.Layout
	return w.write(ctx, c)
}
