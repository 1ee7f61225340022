package delay

import (
	"fmt"
	"strconv"

	"github.com/ranker-worker/ranker-worker/policy"
)

// hashFlights maps "<item>" to the number of the item's selections in flight, where there are any.
const hashFlights = "flights"

// flights counts the selections in flight, those whose payoff is awaited, by item: this partition's own, and those that other
// sources have told of. A count of our own rises with a selection and falls with what becomes of it, its payoff or its
// expiry, and never below 0: a payoff whose selection was not seen (the learner was reset in between) changes nothing.
type flights struct {
	policy.Totals[policy.Count]
	pools  bool           // other sources' are wanted
	stored []policy.Count // of our own, as harvested last
	total  policy.Count   // of our own
}

// tell has the table be told of selections in flight, and what they amount to.
func (f *flights) tell(table *policy.Table, s Silence) {
	f.pools = s.AtOnce
	f.Totals = policy.NewTotals(func(i policy.Item, _, _ policy.Count) { table.Weigh(i) })
	table.AwaitedBy(func(i policy.Item) policy.Evidence { return s.worth(f.Pooled(i)) })
}

// pooled names the hashes that are: others' payoffs without their silence would mislead as one's own would.
func (f *flights) pooled() []Pooled {
	if !f.pools {
		return nil
	}
	return []Pooled{{Hash: hashFlights, ByItem: true}}
}

func (f *flights) grow(items int) {
	f.Grow(items)
	f.stored = extend(f.stored, items-len(f.stored))
}

func (f *flights) begin(i policy.Item) { f.add(i, 1) }

func (f *flights) end(i policy.Item) {
	if f.Own(i) > 0 {
		f.add(i, -1)
	}
}

func (f *flights) add(i policy.Item, n policy.Count) {
	f.AddOwn(i, n, 1)
	f.total += n
}

// harvest writes the counts of our own that are not what is stored.
func (f *flights) harvest(r Recorder, to *writer) {
	for i := range f.Changes().All() {
		n := f.Own(i)
		if f.stored[i] == n {
			continue
		}
		f.stored[i] = n
		to.field = strconv.AppendInt(to.field[:0], int64(i), 10)
		to.writeCount(r, hashFlights, int64(n))
	}
	f.Changes().Clear()
}

func (f *flights) load(field, value []byte) error {
	i, err := parseItem(field, f.Len())
	if err != nil {
		return err
	}
	n, err := parseFlights(value)
	if err != nil {
		return err
	}
	f.total += n - f.Own(i)
	f.Set(i, n)
	f.stored[i] = n
	return nil
}

// setSourceField takes in another source's count; nil where it has none. What makes no sense is passed over.
func (f *flights) setSourceField(source int32, field, value []byte, items Translate) {
	theirs, err := parseInt32(field)
	if err != nil || !f.pools {
		return
	}
	i, known := items(theirs)
	if !known {
		return
	}
	if value == nil {
		f.Drop(source, i)
		return
	}
	if n, err := parseFlights(value); err == nil {
		f.Import(source, i, n)
	}
}

func parseFlights(value []byte) (policy.Count, error) {
	n, err := parseInt(value)
	if err != nil || n == 0 || n > 1<<53 {
		return 0, fmt.Errorf("the value is %w, or 0", errNumber)
	}
	return policy.Count(n), nil
}
