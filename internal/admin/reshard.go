package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// ErrRecreated means that the topics are not the ones that the state was made from.
var ErrRecreated = errors.New("the topics are not those that the state was made from. Kafka cannot take partitions away: " +
	"create topics with other names and the wanted number, name them in the configuration and run this command again, which " +
	"then reads the rest of the old ones first. If topics were deleted and created again under the same names, and all that " +
	"the old ones held had been read, add --recreated")

// ErrNotRecreated means that the topics are the ones that the state was made from.
var ErrNotRecreated = errors.New("the topics were not recreated, they still hold the records read: without --recreated, or all " +
	"of it would be read and learned again")

// ErrReadBefore means that topics to be read from their beginning were read by this group before.
var ErrReadBefore = errors.New("this group has read topics before that are to be read from their beginning: make topics of " +
	"other names, or recreate all of them, the rankings too")

type ReshardQuery struct {
	Recreated bool // the topics were created again: read them from their beginning
	Yes       bool
}

type ReshardReport struct {
	From    int   `json:"from"` // partitions
	To      int   `json:"to"`
	Done    bool  `json:"done"`
	Resumed bool  `json:"resumed"` // an interrupted reshard had built the new state already
	Entries int64 `json:"entries"` // pending impressions, tombstones and ids with parked records carried over
	// Forgotten are dropped tombstones: the partition of an id that is no UUID is not known.
	Forgotten int64 `json:"forgotten"`
}

// stagingSuffix makes the group name of the new state while it is built. Its keys begin like the group's own.
const stagingSuffix = ":new"

// Reshard merges the state of the old partitions into new ones, after the
// topics' partition count was changed, or other topics were configured.
//
// The old partitions first read their unread records, as workers would, from the topics named in the
// state. Then a new state is built beside the old one; when it is complete, it is moved into the old one's
// place, partition by partition. A repeated command begins again or, if the move had begun, continues it.
func (tool *Tool) Reshard(ctx context.Context, q ReshardQuery) (*ReshardReport, error) {
	if err := tool.stopped(ctx); err != nil {
		return nil, err
	}
	to, err := tool.topicPartitions(ctx)
	if err != nil {
		return nil, err
	}
	staging, err := tool.stagingTool()
	if err != nil {
		return nil, err
	}
	defer staging.store.Close()
	if r, err := tool.resume(ctx, staging, to, q.Yes); r != nil || err != nil {
		return r, err
	}
	r := &ReshardReport{To: to}
	f, err := tool.newResharding(ctx, staging, to, q.Recreated)
	if err != nil {
		return nil, err
	}
	defer f.close()
	if r.From = f.from; r.From == to && !f.fresh {
		if err := f.whole(ctx); err != nil {
			return r, err
		}
		if q.Yes {
			return r, nil
		}
		return r, f.refused(ctx) // faults for another number, before partitions are added
	}
	if !q.Yes {
		if err := f.refused(ctx); err != nil {
			return r, err
		}
		return r, ErrConfirm
	}
	err = f.run(ctx)
	if r.Entries, r.Forgotten = f.entries, f.forgotten; err != nil {
		return r, err
	}
	return r, tool.move(ctx, staging, r, f.detail, f.seen)
}

// detailFormat is a reshard's entry in the history.
const detailFormat = "from %d to %d partitions, begun %s"

// parseDetail returns the old number of partitions.
func parseDetail(detail string) (from int, err error) {
	var to int
	if _, err := fmt.Sscanf(detail, "from %d to %d partitions,", &from, &to); err != nil {
		return 0, fmt.Errorf("the history's %q: %w", detail, err)
	}
	return from, nil
}

// resume finishes an earlier move; nil if there is none.
func (tool *Tool) resume(ctx context.Context, staging *Tool, to int, yes bool) (*ReshardReport, error) {
	staged, _, err := staging.store.View(ctx, 0, nil)
	if errors.Is(err, state.ErrNoState) || errors.Is(err, state.ErrIncomplete) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := &ReshardReport{To: staged.Partitions, Resumed: true}
	detail, err := tool.resumable(ctx, staging, r.To)
	if err != nil || detail == "" {
		return nil, err
	}
	if r.From, err = parseDetail(detail); err != nil {
		return nil, err
	}
	if !yes {
		return r, ErrConfirm
	}
	if err := tool.move(ctx, staging, r, detail, nil); err != nil {
		return r, err
	}
	if r.To != to || !slices.Equal(staged.TopicNames, tool.machine.TopicNames[:]) {
		return r, fmt.Errorf("an earlier reshard that was cut off is finished now: the state has %d partitions, of topics %q. "+
			"Run the command again to go on to %d of %q", r.To, staged.TopicNames, to, tool.machine.TopicNames)
	}
	return r, nil
}

// resumable returns the detail of a complete new state whose move has begun, else "". The move has begun when each old partition is locked,
// so that no worker can have changed the old state since. A worker may begin after the old state was dropped and before the new one is
// stored. Its decisions are in the log, and the new state's owner adopts them.
func (tool *Tool) resumable(ctx context.Context, staging *Tool, to int) (detail string, err error) {
	if detail, err = staging.complete(ctx, to); err != nil || detail == "" {
		return "", err
	}
	_, err = staging.store.Probe(ctx, int32(to))
	noted := err == nil
	if !noted && !errors.Is(err, state.ErrNoState) {
		return "", err
	}
	from, err := parseDetail(detail)
	if err != nil {
		return "", err
	}
	for p := range int32(max(from, to)) {
		m, fields, err := tool.store.View(ctx, p, nil)
		if errors.Is(err, state.ErrNoState) || err == nil && m.Layout == task.StateUnfinished {
			continue
		}
		if err != nil {
			return "", err
		}
		past, err := readHistory(fields)
		if err != nil {
			return "", err
		}
		if begun := noted && len(past) == 0; !begun && lastReshard(past) != detail {
			return "", nil
		}
	}
	return detail, nil
}

func (tool *Tool) stagingTool() (*Tool, error) {
	cfg := *tool.cfg
	cfg.Kafka.Group += stagingSuffix
	s, err := app.NewStore(&cfg)
	if err != nil {
		return nil, err
	}
	staging := *tool
	staging.cfg, staging.store = &cfg, s
	return &staging, nil
}

// complete returns the history's detail of a complete new state; empty if there is none, or only a part.
func (tool *Tool) complete(ctx context.Context, partitions int) (detail string, err error) {
	for p := range int32(partitions) {
		m, fields, err := tool.store.View(ctx, p, nil)
		if errors.Is(err, state.ErrNoState) || errors.Is(err, state.ErrIncomplete) {
			return "", nil
		}
		if err == nil && (m.Layout != task.StateLayout || m.Partitions != partitions) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		past, err := readHistory(fields)
		if detail = lastReshard(past); err != nil || detail == "" {
			return "", err
		}
	}
	return detail, nil
}

// catchUp lets an old partition read its unread records, up to the inputs' present ends: they were written under the old count.
func (tool *Tool) catchUp(ctx context.Context, p int32, partitions int) error {
	m, _, err := tool.store.View(ctx, p, nil)
	if err != nil || m.Layout == task.StateUnfinished { // locked by an interrupted command: it has read all
		return err
	}
	facts, err := tool.describe(ctx, p)
	if err != nil {
		return err
	}
	d := driver{tool: tool, p: p, generation: m.Generation, describe: func(d *task.Description) {
		for t := range d.Topics {
			if f := &d.Topics[t]; f.Partitions > 0 {
				f.Partitions = partitions
			}
		}
	}}
	_, err = d.runTask(ctx, func(s *task.Status) (bool, error) {
		tool.say("partition %d: %s, unread: %d impressions, %d payoffs", p, s.Phase, s.Lag[event.Impressions],
			s.Lag[event.Payoffs])
		if s.Phase != task.Running {
			return false, nil
		}
		now, _, err := tool.store.View(ctx, p, nil)
		if err != nil {
			return false, nil // the task reports a lasting fault
		}
		for t := range now.Inputs {
			if used := t != int(event.Selections) || tool.machine.HasSelections; used && now.Inputs[t].Offset < facts.Topics[t].End {
				return false, nil
			}
		}
		return true, nil
	})
	return err
}

// move puts the new state in the old one's place. The old partitions must still be as seen.
func (tool *Tool) move(ctx context.Context, staging *Tool, r *ReshardReport, detail string, seen map[int32]int64) error {
	moved := make([]bool, r.To)
	for p := range int32(max(r.From, r.To)) {
		m, fields, err := tool.store.View(ctx, p, nil)
		if err == nil && int(p) < r.To && m.Layout == task.StateLayout && m.Partitions == r.To {
			if past, err := readHistory(fields); err == nil && lastReshard(past) == detail {
				moved[p] = true // by an interrupted command: a worker may have continued there
				continue
			}
		}
		if err := tool.shut(ctx, p, seen); err != nil {
			return fmt.Errorf("shutting partition %d: %w", p, err)
		}
	}
	for p := range int32(r.To) { // once all old ones are locked
		if err := tool.shutNew(ctx, staging, p); err != nil {
			return fmt.Errorf("shutting partition %d: %w", p, err)
		}
	}
	if err := staging.note(ctx, int32(r.To)); err != nil {
		return err
	}
	tool.say("the old state is shut, the move begins")
	for p := range int32(r.To) {
		if moved[p] {
			continue
		}
		if err := tool.copyPartition(ctx, staging, p); err != nil {
			return fmt.Errorf("moving partition %d into its place: %w", p, err)
		}
		tool.say("partition %d of %d is in its place", p, r.To)
	}
	if err := tool.dropFrom(ctx, r.To, r.From); err != nil {
		return err
	}
	if err := staging.dropFrom(ctx, 0, r.To); err != nil {
		return err
	}
	r.Done = true
	return nil
}

// note marks, beside a new state of n partitions, that the old one is locked:
// by an empty partition with number n, which goes with the new state.
func (tool *Tool) note(ctx context.Context, n int32) error {
	m, _, err := tool.store.View(ctx, 0, nil)
	if err == nil {
		m.Layout = task.StateUnfinished
		_, err = tool.store.Acquire(ctx, n, m.Generation, true, &m)
	}
	if err != nil {
		return fmt.Errorf("noting that the move begins: %w", err)
	}
	return nil
}

// dropFrom drops partitions from a number on, up to another and as long as there are more: an interrupted command may have left some.
func (tool *Tool) dropFrom(ctx context.Context, p, end int) error {
	for ; ; p++ {
		if _, err := tool.store.Probe(ctx, int32(p)); errors.Is(err, state.ErrNoState) && p >= end {
			return nil
		}
		if err := tool.store.Drop(ctx, int32(p), ""); err != nil {
			return err
		}
	}
}

// Bounds of the ids looked up at once, and of the bytes found.
const (
	lookAtOnce = 2000
	lookBytes  = 4 << 20
)

// entries calls f with every entry of a partition, page by page.
func (tool *Tool) entries(ctx context.Context, p int32, f func(page state.Page, e state.Entry) error) error {
	for cursor := uint64(0); ; {
		pages, next, err := tool.store.KnownIDs(ctx, p, cursor)
		if err != nil {
			return err
		}
		for i := range pages {
			if err := tool.entriesOf(ctx, p, &pages[i], f); err != nil {
				return err
			}
		}
		if cursor = next; next == 0 {
			return nil
		}
	}
}

func (tool *Tool) entriesOf(ctx context.Context, p int32, page *state.PageOfIDs, f func(page state.Page, e state.Entry) error) error {
	places := make([]state.Place, len(page.IDs))
	for i, id := range page.IDs {
		places[i] = state.Place{Page: page.Number, ID: id}
	}
	for len(places) > 0 {
		_, values, err := tool.store.LookUp(ctx, p, places[:min(len(places), lookAtOnce)], lookBytes)
		if err != nil {
			return err
		}
		for i, value := range values {
			if value != nil {
				if err := f(page.Page, state.Entry{Place: places[i], Value: value}); err != nil {
					return err
				}
			}
		}
		places = places[len(values):]
	}
	return nil
}
