package task

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ranker-worker/ranker-worker/internal/test/memstore"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// fold is an independent, naive program that computes the stored state from the topics, for traffic with deadlines far away. Outcomes do
// not depend on the topics' interleaving then, so one result is right, whatever dies. It shares no code with the machine.
type fold struct {
	ranked   map[string]int64  // offset of the impression that was ranked, by id
	selected map[string]string // item, by id
	paid     map[string]bool
	taken    map[string][]float64 // payoffs taken in per item, in the order of their topic
	parked   map[string]bool      // ids of which something waits
	account  map[string]int64
	rejected [event.Inputs][]int64 // offsets
	several  bool                  // learners: their statistics are not compared
}

type foldRecord struct {
	ID         string            `json:"impression_id"`
	Item       string            `json:"item"`
	Payoff     any               `json:"payoff"`
	Items      []string          `json:"items"`
	Candidates []json.RawMessage `json:"candidates"`
	Decision   struct {
		Group  string `json:"group"`
		Offset int64  `json:"offset"`
	} `json:"decision"`
}

func foldTopics(b *broker) (*fold, error) {
	f := &fold{ranked: map[string]int64{}, selected: map[string]string{}, paid: map[string]bool{},
		taken: map[string][]float64{}, parked: map[string]bool{}, account: map[string]int64{}}
	shown := map[string][]string{}
	last := int64(-1)
	for _, l := range b.rankings {
		if l.marker || l.producer.ID == foreignID || l.value == nil {
			continue
		}
		r, err := parseRecord(l.value)
		if err != nil {
			return nil, err
		}
		if _, again := f.ranked[r.ID]; again || r.Decision.Offset <= last {
			return nil, fmt.Errorf("%s at offset %d is ranked after offset %d, or a second time", r.ID, r.Decision.Offset, last)
		}
		f.ranked[r.ID], shown[r.ID], last = r.Decision.Offset, r.Items, r.Decision.Offset
	}
	for topic, step := range []func(int64, *foldRecord) string{
		f.impression,
		func(_ int64, r *foldRecord) string { return f.selection(r, shown[r.ID]) },
		func(_ int64, r *foldRecord) string { return f.payoff(r) },
	} {
		name := [...]string{"impressions", "selections", "payoffs"}[topic]
		for offset, l := range b.inputs[topic] {
			if l.marker || l.aborted {
				continue
			}
			r, err := parseRecord(l.value)
			if err != nil {
				return nil, err
			}
			outcome := step(int64(offset), r)
			if outcome == "" {
				return nil, fmt.Errorf("%s at offset %d was never ranked", r.ID, offset)
			}
			f.account[name+".read"]++
			f.account[name+"."+outcome]++
			if outcome == "rejected" {
				f.rejected[topic] = append(f.rejected[topic], int64(offset))
			}
		}
	}
	f.account["impressions.pending"] -= int64(len(f.paid))
	f.account["impressions.paid"] += int64(len(f.paid))
	return f, nil
}

func parseRecord(value []byte) (*foldRecord, error) {
	var r foldRecord
	err := json.Unmarshal(value, &r)
	return &r, err
}

func (f *fold) impression(offset int64, r *foldRecord) string {
	at, ranked := f.ranked[r.ID]
	switch {
	case ranked && at == offset:
		return "pending"
	case len(r.Candidates) == 0:
		return "rejected"
	case ranked && at < offset:
		return "duplicate"
	}
	return ""
}

func (f *fold) selection(r *foldRecord, shown []string) string {
	switch {
	case f.selected[r.ID] != "":
		return "duplicate"
	case !slices.Contains(shown, r.Item):
		return "rejected"
	}
	f.selected[r.ID] = r.Item
	return "joined"
}

// payoff is folded behind all selections: one that comes before its selection waits for it.
func (f *fold) payoff(r *foldRecord) string {
	item := f.selected[r.ID]
	payoff, number := r.Payoff.(float64)
	switch {
	case !number:
		return "rejected"
	case f.paid[r.ID]:
		return "duplicate"
	case item == "":
		f.parked[r.ID] = true
		return "parked"
	}
	f.paid[r.ID] = true
	within := min(max(payoff, 0), 1)
	if within != payoff {
		f.account["payoffs.sums_clamped"]++
	}
	f.taken[item] = append(f.taken[item], within)
	return "applied"
}

// compare compares the stored state with the fold. ordered means that payoffs were fed in the order of their topic.
func (f *fold) compare(c memstore.Copy, ordered bool) error {
	meta := c.Hash("meta")
	for name, field := range meta {
		if name, ok := strings.CutPrefix(name, "account."); ok && name != "parked_bytes" && name != "impressions.adopted" {
			if got := string(field); got != strconv.FormatInt(f.account[name], 10) {
				return fmt.Errorf("%s are %s, folded %d", name, got, f.account[name])
			}
		}
	}
	for name, n := range f.account {
		if n > 0 && meta["account."+name] == nil {
			return fmt.Errorf("%s are not stored, folded %d", name, n)
		}
	}
	if err := f.compareEntries(c); err != nil {
		return err
	}
	if f.several {
		return nil
	}
	return f.compareItems(c, ordered)
}

// compareEntries compares which ids are pending, closed, or only have something waiting: two bits of the first byte of an entry.
func (f *fold) compareEntries(c memstore.Copy) error {
	want := map[state.ID]byte{}
	for id := range f.parked {
		want[idOf(id)] = 1
	}
	for id := range f.ranked {
		want[idOf(id)] = 2
		if f.paid[id] {
			want[idOf(id)] = 3
		}
	}
	got := map[state.ID]byte{}
	for id, entry := range c.Entries() {
		if entry[0] == 0xff { // the partitioner's hash stands before it
			entry = entry[5:]
		}
		got[id] = entry[0] >> 3 & 3
	}
	if !maps.Equal(want, got) {
		return fmt.Errorf("entries are %v, folded %v", got, want)
	}
	return nil
}

func idOf(text string) state.ID { return state.IDOf([]byte(text)) }

// compareItems checks each item's sums and queue against QPM-D's rule: each payoff is fed or waits, and the fed ones are the first N.
func (f *fold) compareItems(c memstore.Copy, ordered bool) error {
	left := maps.Clone(f.taken)
	onHold, _, _ := strings.Cut(string(c.Hash("feed:learner")["hold"]), " ")
	for name, value := range c.Hash("feed:items") {
		var item struct {
			No, N      int
			Sum, Sumsq float64
		}
		if err := json.Unmarshal(value, &item); err != nil {
			return err
		}
		queue, err := storedQueue(c, item.No)
		if err != nil {
			return err
		}
		if onHold == strconv.Itoa(item.No) && len(queue) > 0 {
			return fmt.Errorf("item %q is waited for although %v wait", name, queue)
		}
		taken := left[name]
		delete(left, name)
		if item.N+len(queue) != len(taken) {
			return fmt.Errorf("item %q: %d fed and %d waiting, folded %d", name, item.N, len(queue), len(taken))
		}
		fed := taken[:item.N]
		if !ordered { // take waiting payoffs from anywhere
			fed = slices.Clone(taken)
			for _, x := range queue {
				k := slices.Index(fed, x)
				if k < 0 {
					return fmt.Errorf("item %q: %v waits, which was not taken in", name, x)
				}
				fed = slices.Delete(fed, k, k+1)
			}
		} else if !slices.Equal(queue, taken[item.N:]) {
			return fmt.Errorf("item %q: %v wait, folded %v", name, queue, taken[item.N:])
		}
		var sum, squares float64
		for _, x := range fed {
			sum += x
			squares += x * x
		}
		if sum != item.Sum || squares != item.Sumsq {
			return fmt.Errorf("item %q: sums %v and %v, folded %v and %v", name, item.Sum, item.Sumsq, sum, squares)
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("payoffs of items that are not stored: %v", left)
	}
	return nil
}

// storedQueue returns an item's waiting payoffs in the order of their indices.
func storedQueue(c memstore.Copy, item int) ([]float64, error) {
	waiting := map[int]float64{}
	for field, value := range c.Hash("feed:queue") {
		var of, index int
		if _, err := fmt.Sscanf(field, "%d:%d", &of, &index); err != nil {
			return nil, err
		}
		x, err := strconv.ParseFloat(string(value), 64)
		if err != nil {
			return nil, err
		}
		if of == item {
			waiting[index] = x
		}
	}
	var queue []float64
	for _, k := range slices.Sorted(maps.Keys(waiting)) {
		queue = append(queue, waiting[k])
	}
	return queue, nil
}

// compareLetters checks that refused records are in the dead-letter topics.
func (f *fold) compareLetters(b *broker) error {
	for topic := range f.rejected {
		have := lettersFrom(b, event.Topic(topic))
		for _, offset := range f.rejected[topic] {
			if !have[offset] {
				return fmt.Errorf("no dead letter for offset %d of topic %d", offset, topic)
			}
		}
	}
	return nil
}

// lettersFrom returns the offsets in a topic's dead letters.
func lettersFrom(b *broker, topic event.Topic) map[int64]bool {
	have := map[int64]bool{}
	for _, l := range b.letters[topic] {
		for _, h := range l.headers {
			if h.Key == "__streams.errors.offset" {
				offset, _ := strconv.ParseInt(string(h.Value), 10, 64)
				have[offset] = true
			}
		}
	}
	return have
}
