package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// resharding builds the state of new partitions from that of old ones.
//
// Statistics of old partition j go to new partition j modulo their number: sums are added up, and queues are appended. A new
// partition without any gets copies of BOLD's instances, and of items' ages, from old partition q modulo their number. Entries go where Kafka's
// default partitioner puts their ids now; tombstones with an unknown partition are dropped. Accounts go with the statistics,
// except pending and parked, which go with their entries. Holds are released. The watermark is the least of all.
type resharding struct {
	tool      *Tool
	staging   *Tool
	source    *Tool // of the topics that the old state was made from
	from, to  int
	recreated bool
	fresh     bool // the new state has other topics: they are read from their beginning
	detail    string
	entries   int64
	forgotten int64

	old  []*view
	seen map[int32]int64 // by old partition: the sequence that was carried over
	new  []*writer
	took []Taken // by the learners of any old partition

	misplaced []misplaced
}

// newResharding prepares a reshard. The caller must close it.
func (tool *Tool) newResharding(ctx context.Context, staging *Tool, to int, recreated bool) (*resharding, error) {
	cut, err := tool.anyCut(ctx)
	if err != nil {
		return nil, err
	}
	f := &resharding{tool: tool, staging: staging, source: tool, from: cut.Partitions, to: to, recreated: recreated, fresh: recreated,
		detail: fmt.Sprintf(detailFormat, cut.Partitions, to, tool.now().UTC().Format(time.RFC3339Nano)),
		seen:   map[int32]int64{}}
	if slices.Equal(cut.TopicNames, tool.machine.TopicNames[:]) {
		if f.to < f.from && !recreated {
			return nil, fmt.Errorf("%w (partition count %d, of the state %d)", ErrRecreated, f.to, f.from)
		}
		return f, nil
	}
	for _, name := range tool.machine.TopicNames {
		if name != "" && slices.Contains(cut.TopicNames, name) {
			return nil, fmt.Errorf("%w (%q keeps its name, of %q)", ErrReadBefore, name, cut.TopicNames)
		}
	}
	f.fresh = true
	f.source, err = tool.ofTopics(cut.TopicNames)
	return f, err
}

func (f *resharding) close() {
	if f.source != f.tool {
		f.source.broker.Close()
	}
}

// ofTopics returns a Tool for the same state with other topics' names.
func (tool *Tool) ofTopics(names []string) (*Tool, error) {
	cfg := *tool.cfg
	t := &cfg.Kafka.Topics
	if len(names) != event.Topics || (names[event.Selections] == "") == tool.machine.HasSelections {
		return nil, fmt.Errorf("the state was made from topics %q, configured are %q: whether there is a selections topic "+
			"cannot change", names, tool.machine.TopicNames)
	}
	t.Impressions, t.Selections = names[event.Impressions], names[event.Selections]
	t.Payoffs, t.Rankings = names[event.Payoffs], names[event.Rankings]
	machine, err := app.MachineConfig(&cfg)
	if err != nil {
		return nil, err
	}
	b, err := app.NewBroker(&cfg)
	if err != nil {
		return nil, err
	}
	other := *tool
	other.cfg, other.machine, other.broker = &cfg, machine, b
	return &other, nil
}

// run builds the new state, whose partitions are complete at the end.
func (f *resharding) run(ctx context.Context) error {
	if err := f.staging.dropFrom(ctx, 0, f.to); err != nil { // rest of an interrupted command
		return err
	}
	for p := range int32(f.from) {
		if err := f.read(ctx, p); err != nil {
			return err
		}
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
	if err := f.merge(ctx); err != nil {
		return err
	}
	for _, w := range f.new {
		if err := w.finish(ctx, f); err != nil {
			return fmt.Errorf("finishing partition %d: %w", w.p, err)
		}
	}
	return nil
}

// merge carries the old partitions over. Statistics come before all entries: features of a selection depend on its item's age.
func (f *resharding) merge(ctx context.Context) error {
	for _, v := range f.old {
		if err := f.statistics(v); err != nil {
			return fmt.Errorf("merging the statistics of partition %d: %w", v.number, err)
		}
	}
	for _, v := range f.old {
		if err := f.carry(ctx, v); err != nil {
			return fmt.Errorf("carrying partition %d over: %w", v.number, err)
		}
	}
	return f.carryMisplaced(ctx)
}

// lookAt reads an old partition. It fails if the partition belongs to another state, and with state.ErrNoState if it has none.
func (f *resharding) lookAt(ctx context.Context, p int32) (*view, error) {
	v, err := f.source.look(ctx, p)
	if err == nil {
		err = f.belongs(p, &v.meta)
	}
	if err == nil && f.recreated {
		err = f.source.gone(ctx, v)
	}
	return v, err
}

// read reads an old partition, after its unread records.
func (f *resharding) read(ctx context.Context, p int32) error {
	if !f.recreated {
		err := f.source.catchUp(ctx, p, f.from)
		if err != nil && !errors.Is(err, state.ErrNoState) {
			return fmt.Errorf("%w; if the topics that the state was made from are gone, see --recreated", err)
		}
	}
	v, err := f.lookAt(ctx, p)
	if errors.Is(err, state.ErrNoState) {
		return nil
	}
	if err != nil {
		return err
	}
	past, err := readHistory(v.fields)
	if err != nil {
		return err
	}
	for _, one := range allTaken(past) {
		if !slices.Contains(f.took, one) {
			f.took = append(f.took, one)
		}
	}
	f.old = append(f.old, v)
	f.seen[p] = v.meta.Seq
	return nil
}

// share returns the new partition, and the share of statistics, of old partition j.
func (f *resharding) share(j int32) (home int32, s delay.Portion) {
	home = j % int32(f.to)
	s = delay.Portion{Additive: true, Queues: true}
	for i := home; i < int32(f.from); i += int32(f.to) {
		if i == j {
			s.Rank = s.Of
		}
		s.Of++
	}
	return home, s
}

// transfer returns a Transfer of an old partition to a new one, and whether that takes its sums over.
func (f *resharding) transfer(v *view, q int32) (t *partition.Transfer, isHome bool) {
	home, s := f.share(v.number)
	s.Additive, s.Queues = q == home, q == home
	return partition.NewTransfer(v.machine, f.new[q].machine, s), q == home
}

// statistics carries an old partition's statistics over.
func (f *resharding) statistics(v *view) error {
	for q := range int32(f.to) {
		t, isHome := f.transfer(v, q)
		t.Watermark()
		t.Experiments()
		if isHome {
			t.Account()
		}
		if isHome || q >= int32(f.from) && q%int32(f.from) == v.number {
			if err := t.Statistics(); err != nil {
				return err
			}
		}
	}
	return nil
}

// carry carries an old partition's entries over, after all statistics.
func (f *resharding) carry(ctx context.Context, v *view) error {
	transfers := make([]*partition.Transfer, f.to)
	for q := range transfers {
		transfers[q], _ = f.transfer(v, int32(q))
	}
	return f.tool.entries(ctx, v.number, func(page state.Page, e state.Entry) error {
		hash, known := partition.KeyHashOf(e.ID, e.Value)
		if !known {
			f.forgotten++
			return nil
		}
		q := partitionOf(hash, f.to)
		f.entries++
		if partitionOf(hash, f.from) != v.number {
			return f.setAside(misplaced{transfers[q], q, e.ID, page.Bucket, bytes.Clone(e.Value)})
		}
		if err := transfers[q].Entry(e.ID, page.Bucket, e.Value, partition.Found{}); err != nil {
			return err
		}
		if f.entries%lookAtOnce == 0 {
			f.tool.say("partition %d: %d ids carried over", v.number, f.entries)
		}
		return f.new[q].flushIfLarge(ctx)
	})
}

// misplaced is an entry in another partition than Kafka's default partitioner's. Its id may be in that one too.
type misplaced struct {
	transfer *partition.Transfer
	to       int32
	id       state.ID
	bucket   int64
	value    []byte
}

func partitionOf(hash uint32, n int) int32 { return int32(hash % uint32(max(n, 1))) }

const (
	maxMisplaced  = 200_000 // held in memory at once
	manyMisplaced = 100     // from this number on a quarter of all is too much
)

var ErrPartitioner = errors.New("keys are not where Kafka's default partitioner (murmur2) puts them. Only your " +
	"producers determine their partitions after the change: let them use that partitioner, wait for " +
	"payoff_horizon and join.parking_time, and then run this command; or start a new kafka.group, and carry over the " +
	"statistics with `ranker-worker state export` and `state import`")

// setAside keeps a misplaced entry until the others are carried over.
func (f *resharding) setAside(s misplaced) error {
	f.misplaced = append(f.misplaced, s)
	if len(f.misplaced) > maxMisplaced {
		return fmt.Errorf("%w (more than %d ids)", ErrPartitioner, maxMisplaced)
	}
	return nil
}

func (f *resharding) carryMisplaced(ctx context.Context) error {
	if err := tooManyAstray(int64(len(f.misplaced)), f.entries); err != nil {
		return err
	}
	for _, s := range f.misplaced {
		w := f.new[s.to]
		found, err := w.find(ctx, s.id)
		if err != nil {
			return err
		}
		if err := s.transfer.Entry(s.id, s.bucket, s.value, found); err != nil {
			return err
		}
		if err := w.flushIfLarge(ctx); err != nil {
			return err
		}
	}
	return nil
}

// begin makes an empty new partition. An existing one continues at its positions, unless the topics are new.
func (f *resharding) begin(ctx context.Context, p int32) (*writer, error) {
	d, err := f.tool.describe(ctx, p)
	if err != nil {
		return nil, err
	}
	if f.fresh {
		if err := f.unread(ctx, p, &d); err != nil {
			return nil, err
		}
	}
	m := *d.Beginning(false)
	if !f.fresh { // a worker may have begun in a new partition: its decisions are adopted
		m.Rankings = d.Topics[event.Rankings].LogStart
	}
	machine, err := f.tool.emptyMachine(p)
	if err != nil {
		return nil, err
	}
	for _, v := range f.old {
		if v.number == p && !f.fresh {
			m = v.meta
			machine.ContinueOrders(v.machine)
		}
	}
	m.Layout, m.Partitions = task.StateUnfinished, f.to
	return newWriter(ctx, f.staging.store, p, &m, machine)
}

// finish stores the rest and the history, and makes the partition usable unless a worker could not load it. The old state is still in place.
func (w *writer) finish(ctx context.Context, f *resharding) error {
	var c state.Changes
	w.machine.Seal(&c)
	if err := (History{Done: reshardDone, Detail: f.detail, Taken: f.took}).write(&c, nil, &w.meta, f.tool.now()); err != nil {
		return err
	}
	if err := w.write(ctx, c); err != nil {
		return err
	}
	if _, err := f.staging.look(ctx, w.p); err != nil {
		return fmt.Errorf("the old state stays in place: %w", err)
	}
	w.meta.Layout = task.StateLayout
	return w.write(ctx, state.Changes{})
}

const reshardDone = "reshard"

// Resharded returns a topic's offset at the partition's last reshard, 0 without one, from the fields of its meta.
func Resharded(fields []state.Field, t event.Topic) (offset int64) {
	past, _ := readHistory(fields) // other commands report a faulty one
	for _, h := range past {
		if h.Done == reshardDone && int(t) < len(h.Offsets) {
			offset = h.Offsets[t]
		}
	}
	return offset
}

// lastReshard returns the detail of the partition's last reshard.
func lastReshard(past []History) (detail string) {
	for _, h := range past {
		if h.Done == reshardDone {
			detail = h.Detail
		}
	}
	return detail
}
