package delay

import (
	"errors"
	"math"

	"github.com/ranker-worker/ranker-worker/delay/history"
	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

// falls finds falls of shares of selections in this partition. It watches one item: its later impressions are compared with its earlier
// ones. If their share is lower beyond chance, only impressions that begin from then on count, of all items: items that are not on top may
// have changed, too. A rise is not searched for: an item on top whose share rises stays on top.
//
// Impressions are earlier or later by when they began. A selection counts at once, and its absence after a timeout. So the later share is
// never too low because impressions have not ended.
type falls struct {
	begins   int64       // ms; impressions that began before it do not count
	since    int64       // ms; impressions that began before it are earlier ones
	newest   int64       // ms; latest beginning of an ended impression
	left     int64       // later impressions of all items until another item is watched
	found    int64       // falls so far
	item     policy.Item // watched
	earlier  policy.Sums // of item
	unstored bool        // changed since the last harvest
}

const (
	// leastFall is the evidence for the first fall, in nats. Each fall doubles that for the next. So shares that fall and rise by the hour
	// cost little.
	leastFall = 16
	// An item is watched for so many impressions, and that part of those that count.
	leastWatched = 256
	partWatched  = 4
)

func newFalls() falls {
	return falls{begins: inflight.Never, since: inflight.Never, newest: inflight.Never, left: leastWatched}
}

// counts notes when an ended impression began, and returns whether it counts.
func (f *falls) counts(began int64) bool {
	f.newest, f.unstored = max(f.newest, began), true
	return began >= f.begins
}

// counted looks for a fall after an impression with item i on top has been added to the table.
func (f *falls) counted(t *policy.Table, i policy.Item, s policy.Sums, began int64) {
	if began < f.since {
		if i == f.item {
			f.earlier = f.earlier.Add(s)
		}
		return
	}
	if f.left--; i == f.item && s.R == 0 && fallen(f.earlier, t.Own(i)) > math.Ldexp(leastFall, int(f.found)) {
		f.found++
		f.begins, f.left = f.newest+1, 0
		for i, own := range t.AllOwn() {
			if own.N > 0 {
				*t.At(i) = policy.Sums{}
				t.Changed(i, policy.SumsChanged)
			}
		}
	}
	if f.left <= 0 {
		f.watch(t, i)
	}
}

// watch makes all impressions of an item earlier ones. The item on top of the present impression is probably on top most often.
func (f *falls) watch(t *policy.Table, i policy.Item) {
	var all int64
	for _, own := range t.AllOwn() {
		all += own.N
	}
	f.item, f.earlier, f.since, f.left = i, t.Own(i), f.newest+1, max(leastWatched, all/partWatched)
}

// fallen returns the evidence, in nats, that the share of later impressions is lower than that of earlier ones: the logarithm of the
// likelihood ratio of two shares and one.
func fallen(earlier, all policy.Sums) float64 {
	later := policy.Sums{N: all.N - earlier.N, R: all.R - earlier.R}
	if later.R*float64(earlier.N) >= earlier.R*float64(later.N) {
		return 0
	}
	return likelihood(earlier) + likelihood(later) - likelihood(all)
}

// likelihood returns the logarithm of the largest likelihood of impressions that have one share.
func likelihood(s policy.Sums) float64 {
	log := func(part float64) float64 {
		if part == 0 {
			return 0
		}
		return part * math.Log(part/float64(s.N))
	}
	return log(s.R) + log(float64(s.N)-s.R)
}

// fieldFalls of hash "learner" holds the numbers of falls.
const fieldFalls = "falls"

func (f *falls) harvest(r Recorder, to *writer) {
	if f.unstored {
		f.unstored = false
		to.value = history.AppendNumbers(to.value[:0], f.begins, f.since, f.newest, f.left, f.found)
		to.value = history.AppendNumbers(to.value, int64(f.item), int64(f.earlier.R), f.earlier.N)
		r.Field(HashLearner, []byte(fieldFalls), to.value)
	}
}

var errFalls = errors.New("the value is not eight numbers behind a colon each, the last three an item and its counts")

// load reads the field that harvest wrote.
func (f *falls) load(value []byte) error {
	r := words.Of(value, ':')
	r.Check(len(r.Word()) == 0)
	var times [5]int64
	r.Ints(times[:], inflight.Never, -inflight.Never)
	item, with := r.Int(0, math.MaxInt32), r.Int(0, -inflight.Never)
	all := r.Int(with, -inflight.Never)
	if err := r.End(errFalls); err != nil {
		return err
	}
	f.begins, f.since, f.newest, f.left, f.found = times[0], times[1], times[2], times[3], times[4]
	f.item, f.earlier = policy.Item(item), policy.Sums{N: all, R: float64(with)}
	return nil
}
