package delay

import (
	"fmt"
	"strconv"

	"github.com/ranker-worker/ranker-worker/policy"
)

// hashFlights maps "<item>" to the number of the item's selections in flight, where there are any.
const hashFlights = "flights"

// flights counts the selections in flight, those whose payoff is awaited. A count rises with a selection and falls with
// what becomes of it, its payoff or its expiry, and never below 0: a payoff whose selection was not seen (the learner was
// reset in between) changes nothing.
type flights struct {
	byItem []int64
	stored []int64 // by item, as harvested last
	total  int64
}

func (f *flights) grow(more int) {
	f.byItem = extend(f.byItem, more)
	f.stored = extend(f.stored, more)
}

func (f *flights) begin(i policy.Item) {
	f.byItem[i]++
	f.total++
}

func (f *flights) end(i policy.Item) {
	if f.byItem[i] > 0 {
		f.byItem[i]--
		f.total--
	}
}

// harvest writes an item's count where it is not what is stored.
func (f *flights) harvest(r Recorder, i policy.Item, to *writer) {
	if f.stored[i] == f.byItem[i] {
		return
	}
	f.stored[i] = f.byItem[i]
	to.field = strconv.AppendInt(to.field[:0], int64(i), 10)
	to.writeCount(r, hashFlights, f.byItem[i])
}

func (f *flights) load(field, value []byte) error {
	i, err := parseItem(field, len(f.byItem))
	if err != nil {
		return err
	}
	n, err := parseInt(value)
	if err != nil || n == 0 || n > 1<<53 {
		return fmt.Errorf("the value is %w, or 0", errNumber)
	}
	f.total += n - f.byItem[i]
	f.byItem[i], f.stored[i] = n, n
	return nil
}
