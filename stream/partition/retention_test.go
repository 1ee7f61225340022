package partition

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/preference"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

const (
	testRetention = 1_600_000 // ms: periods of 200 s
	testTicks     = 200       // of 1 s
	testPartition = 3
)

// endingConfig has a learner whose items end.
func endingConfig(t require.TestingT, s delay.Silence) Config {
	cfg := testConfig()
	l := &cfg.Learners[0]
	l.PolicyName, l.ItemRetention = "moss", testRetention
	zero := 0.0
	l.ExpiryDefault = &zero
	s.Horizon = l.PayoffHorizon
	l.New = func() delay.Learner {
		p, err := policy.NewMOSS(policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior})
		require.NoError(t, err)
		d := delay.NewDirect(p, s)
		d.LearnAttraction(0)
		return d
	}
	return cfg
}

// keptItems is the slow, obvious oracle: by name, up to when an item is kept, and its number.
type keptItems struct {
	until  map[string]int64
	number map[string]int
	next   int
}

// carry takes in an impression, of items in the order of the record.
func (k *keptItems) carry(items []string, began, deadline int64) {
	for _, name := range items {
		if _, ok := k.until[name]; !ok {
			k.number[name], k.next = k.next, k.next+1
		}
		u := max(began+testRetention, deadline)
		for u%1000 != 0 || (u/1000-int64(k.number[name]/namesInPage)-testPartition)%testTicks != 0 {
			u++
		}
		k.until[name] = max(k.until[name], u)
	}
}

// end drops the items that are due after a step.
func (k *keptItems) end(watermark int64) (ended []string) {
	for name, u := range k.until {
		if watermark > u {
			ended = append(ended, name)
		}
	}
	slices.SortFunc(ended, func(a, b string) int { return k.number[a] - k.number[b] })
	ended = ended[:min(len(ended), endedAtOnce)]
	for _, name := range ended {
		delete(k.until, name)
		delete(k.number, name)
	}
	return ended
}

// TestItemsEnd: the items in memory and in the store are those of the oracle, with its numbers, and nothing is stored of others. Records,
// the walk's progress and crashes are random.
func TestItemsEnd(t *testing.T) {
	for name, s := range map[string]delay.Silence{
		"waits": {}, "at once": {Law: delay.SilenceAtOnce}, "ages": {Law: delay.SilenceAges}, "drift": {Law: delay.SilenceAges, Drift: 0.1},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { checkItemsEnd(t, endingConfig(t, s)) })
		})
	}
}

func checkItemsEnd(t *rapid.T, cfg Config) {
	w := newWorld(t, cfg)
	k := &keptItems{until: map[string]int64{}, number: map[string]int{}}
	w.tick(1_000, [event.Inputs]bool{true, true, true})
	var ids []string
	shown := map[string][]string{}
	var many []string // on several pages
	for n := range rapid.SampledFrom([]int{1, 100}).Draw(t, "many") {
		many = append(many, fmt.Sprint("item ", n))
	}
	require.NoError(t, w.read(event.Impressions, "many", impression("many", many...), w.now))
	k.carry(many, w.now, w.now+cfg.Learners[0].PayoffHorizon)
	check := func() {
		l := w.m.learners[0]
		require.Equal(t, len(k.until), l.items.len())
		for name, number := range k.number {
			i, ok := l.items.lookUp([]byte(name))
			require.True(t, ok, name)
			require.EqualValues(t, number, i, name)
			require.Equal(t, k.until[name], l.items.untilOf(i), name)
		}
		require.EqualValues(t, k.next, l.items.next)
	}
	stored := func() {
		require.Len(t, w.store.items(t, "feed"), len(k.until))
		w.requireNothingOfEnded()
	}
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		switch rapid.SampledFrom([]string{"impression", "impression", "selection", "payoff", "time", "time", "long", "walk", "save", "crash"}).Draw(t, "what") {
		case "impression":
			items := rapid.SliceOfNDistinct(rapid.SampledFrom(strings.Split("abcdefghij", "")), 1, 4, rapid.ID[string]).Draw(t, "items")
			id := fmt.Sprint(len(ids))
			ids = append(ids, id)
			shown[id] = items
			at := w.now + rapid.Int64Range(-100_000, 0).Draw(t, "late")
			require.NoError(t, w.read(event.Impressions, id, impression(id, items...), at))
			began := max(at, w.m.Watermark())
			k.carry(items, began, began+cfg.Learners[0].PayoffHorizon)
			k.end(w.m.Watermark())
		case "selection", "payoff":
			if len(ids) == 0 {
				continue
			}
			id := ids[len(ids)-1-min(len(ids)-1, rapid.IntRange(0, 3).Draw(t, "which"))]
			item := rapid.SampledFrom(shown[id]).Draw(t, "item")
			if rapid.Bool().Draw(t, "selects") {
				require.NoError(t, w.read(event.Selections, id, fmt.Appendf(nil, `{"impression_id":%q,"item":%q}`, id, item), w.now))
			} else {
				require.NoError(t, w.read(event.Payoffs, id, fmt.Appendf(nil, `{"impression_id":%q,"item":%q,"payoff":1}`, id, item), w.now))
			}
			k.end(w.m.Watermark())
		case "time":
			w.tick(w.now+rapid.Int64Range(1, 700_000).Draw(t, "by"), [event.Inputs]bool{true, true, true})
		case "long":
			w.tick(w.now+rapid.Int64Range(1, 3_000_000).Draw(t, "by"), [event.Inputs]bool{true, true, true})
		case "walk":
			w.walk(3)
			w.save()
			stored()
		case "save":
			w.save()
			stored()
		case "crash":
			w.crash()
		}
		check()
	}
	w.save()
	stored()
}

// requireNothingOfEnded: no stored statistic is of an item that has ended.
func (w *world) requireNothingOfEnded() {
	for _, l := range w.m.configured {
		for _, hash := range []string{"flights", "settled", "open", "history", "attraction"} {
			for field, value := range w.store.fields[l.name+":"+hash] {
				if field == "pass" {
					continue
				}
				number, err := strconv.Atoi(field)
				require.NoError(w.t, err)
				require.True(w.t, l.items.has(policy.Item(number)), "%s: %s has %s: %s, of an item that has ended", l.name, hash, field, value)
			}
		}
	}
}

// outlivingWorld has an impression of an item that has ended, and of one that has not. The first was selected if selects is set. payoff_horizon
// was shortened then, and items end only since then.
func outlivingWorld(t require.TestingT, sum, selects bool) *world {
	cfg := endingConfig(t, delay.Silence{Law: delay.SilenceAges, InParts: sum})
	l := &cfg.Learners[0]
	l.ItemRetention, l.PayoffHorizon, l.SelectionTimeout, l.AggregateSum = 0, 60_000_000, 60_000_000, sum
	w := newWorld(t, cfg)
	w.tick(day, [event.Inputs]bool{true, true, true})
	require.NoError(t, w.read(event.Impressions, "1", impression("1", "young", "old"), w.now))
	if selects {
		require.NoError(t, w.read(event.Selections, "1", []byte(`{"impression_id":"1","item":"old"}`), w.now))
	}
	w.save()
	l.ItemRetention, l.PayoffHorizon = testRetention, 600_000
	w.crash()
	w.tick(w.now+2*testRetention, [event.Inputs]bool{true, true, true})
	require.NoError(t, w.read(event.Impressions, "2", impression("2", "young"), w.now))
	w.save()
	return w
}

// TestSelectionOutlivesItsItem: a payoff is not refused because its item has ended, and teaches nothing about the item.
func TestSelectionOutlivesItsItem(t *testing.T) {
	for _, payoff := range []string{`0.5`, `0.5,"item":"old"`, `7,"item":"old"`} {
		for _, sum := range []bool{false, true} {
			t.Run(fmt.Sprintf("payoff %s, sum %t", payoff, sum), func(t *testing.T) {
				w := outlivingWorld(t, sum, true)
				require.NoError(t, w.read(event.Payoffs, "1", []byte(`{"impression_id":"1","payoff":`+payoff+`}`), w.now))
				require.Empty(t, w.letters)
				w.tick(w.now+60_000_000, [event.Inputs]bool{true, true, true})
				w.walk(10)
				require.EqualValues(t, 1, w.m.Account().Impressions.Paid)
				w.requireNothingOfEnded()
				w.crash()
			})
		}
	}
}

// TestRefusedPayoffOutlivesItsItem: a payoff out of range that ends the impression teaches nothing about the item either.
func TestRefusedPayoffOutlivesItsItem(t *testing.T) {
	w := outlivingWorld(t, false, true)
	l := w.m.byName["feed"]
	log := &outcomeLog{Learner: l.delay}
	l.cfg.RefuseOutOfRange, l.delay = true, log
	require.NoError(t, w.read(event.Payoffs, "1", []byte(`{"impression_id":"1","payoff":7}`), w.now))
	require.EqualValues(t, 1, w.m.Account().Impressions.Expired)
	require.Empty(t, log.expired)
}

// TestSelectionOutlivesItemRemoving: a selection of an item that has ended ends by its default, with a learner that keeps all items.
func TestSelectionOutlivesItemRemoving(t *testing.T) {
	w := outlivingWorld(t, false, true)
	l := &w.cfg.Learners[0]
	given := l.New
	l.ItemRetention, l.FindsUtilities = 0, true
	l.New = func() delay.Learner { return delay.NewPreferring(given(), preference.NewSorted()) }
	w.crash()
	w.tick(w.now+60_000_000, [event.Inputs]bool{true, true, true})
	w.walk(10)
	require.EqualValues(t, 1, w.m.Account().Impressions.Defaulted)
	w.requireNothingOfEnded()
}

// TestImpressionOutlivesItsTop: the selection of another item teaches nothing about the item on top, which has ended.
func TestImpressionOutlivesItsTop(t *testing.T) {
	w := outlivingWorld(t, false, false)
	require.NoError(t, w.read(event.Selections, "1", []byte(`{"impression_id":"1","item":"young"}`), w.now))
	require.EqualValues(t, 1, w.m.Account().Selections.Joined)
	w.save()
	w.requireNothingOfEnded()
}

// TestItemsAreKeptInTurn: impressions of known items publish no rows, at no time of a period. They write few pages, whose bytes a seal's
// weight includes.
func TestItemsAreKeptInTurn(t *testing.T) {
	cfg := endingConfig(t, delay.Silence{Law: delay.SilenceAges})
	retention := int64(60 * 86_400_000)
	cfg.Learners[0].ItemRetention = retention
	cfg.Learners[0].New = func() delay.Learner { return delay.NewDirect(policy.NewUtility(), delay.Silence{}) }
	w := newWorld(t, cfg)
	all := [event.Inputs]bool{true, true, true}
	w.tick(day, all)
	name := func(n int) string { return fmt.Sprintf("item-%07d", n%2000) }
	impressions := 0
	show := func(first int) (id string) {
		var items []string
		for n := range 20 {
			items = append(items, name(first+n))
		}
		impressions++
		id = fmt.Sprint("i-", impressions)
		require.NoError(t, w.read(event.Impressions, id, impression(id, items...), w.now))
		return id
	}
	sealed := func() (written, published int) {
		var c state.Changes
		segment, _ := w.m.Seal(&c)
		w.m.Forget(segment)
		for _, x := range c.Writes {
			bytes := len(x.Field) + len(x.Value)
			switch x.Hash {
			case "feed:items":
				published += bytes
			case "feed:names":
				written += bytes
			}
		}
		return written, published
	}
	for first := range 2000 {
		id := show(first)
		require.NoError(t, w.read(event.Selections, id, event.AppendSelection(nil, &event.Selection{ID: []byte(id), Item: []byte(name(first))}), w.now))
		require.NoError(t, w.read(event.Payoffs, id, event.AppendPayoff(nil, &event.Payoff{ID: []byte(id), Payoff: 1}), w.now))
	}
	_, published := sealed()
	require.Positive(t, published)
	total := 0
	for range phases {
		step := retention / (periodsKept * phases)
		w.tick(w.now+step, all)
		if (w.now+retention)/step%phases > 40 { // no page of the few is due
			continue
		}
		for first := 0; first < 2000; first += 20 {
			show(first)
		}
		weight := w.m.segments.loose - 100*eventWeight
		written, published := sealed()
		require.Less(t, written, 2500)
		require.LessOrEqual(t, int64(written), weight)
		require.Zero(t, published)
		total += written
	}
	require.Greater(t, total, 2000*len(name(0)), "each page was written")
	require.Equal(t, 2000, w.m.learners[0].items.len())
}

// TestItemsEndAFewAtATime: a step drops at most endedAtOnce items, and the next steps drop the rest, whether the state is loaded again in
// between or not.
func TestItemsEndAFewAtATime(t *testing.T) {
	for _, crashes := range []bool{true, false} {
		t.Run(fmt.Sprint("crashes ", crashes), func(t *testing.T) { checkItemsEndAFewAtATime(t, crashes) })
	}
}

func checkItemsEndAFewAtATime(t *testing.T, crashes bool) {
	w := newWorld(t, endingConfig(t, delay.Silence{Law: delay.SilenceAges}))
	all := [event.Inputs]bool{true, true, true}
	w.tick(1_000, all)
	const items = 2*endedAtOnce + 50
	for i := 0; i < items; i += 50 {
		var names []string
		for k := range 50 {
			names = append(names, fmt.Sprint("item ", i+k))
		}
		require.NoError(t, w.read(event.Impressions, fmt.Sprint(i), impression(fmt.Sprint(i), names...), w.now))
	}
	met := w.m.learners[0].items.len()
	w.tick(w.now+2*testRetention, all)
	w.save()
	for step, left := range []int{met - endedAtOnce + 1, met - 2*endedAtOnce + 1, 1} {
		require.NoError(t, w.read(event.Impressions, fmt.Sprint("late", step), impression(fmt.Sprint("late", step), "new"), w.now))
		require.Equal(t, left, w.m.learners[0].items.len())
		w.save()
		require.Len(t, w.store.items(t, "feed"), left)
		if crashes {
			w.crash()
		}
	}
	require.Contains(t, w.store.items(t, "feed")["new"], fmt.Sprintf(`"no":%d,`, met))
	require.NoError(t, w.read(event.Impressions, "again", impression("again", "item 7"), w.now))
	i, _ := w.m.learners[0].items.lookUp([]byte("item 7"))
	require.EqualValues(t, met+1, i)
}

// TestItemsStoredWithoutRetention: items that were stored while none were dropped count as carried once a learner that drops items first loads them. That
// holds even if it is loaded again and again.
func TestItemsStoredWithoutRetention(t *testing.T) {
	cfg := endingConfig(t, delay.Silence{})
	cfg.Learners[0].ItemRetention = 0
	all := [event.Inputs]bool{true, true, true}
	w := newWorld(t, cfg)
	w.tick(10_000_000, all)
	require.NoError(t, w.read(event.Impressions, "1", impression("1", "old"), w.now))
	w.save()
	require.NotContains(t, w.store.items(t, "feed")["old"], "until")
	require.NotContains(t, w.store.fields["meta"]["learner.feed"], "kept")
	w.tick(20_000_000, all)
	w.save()
	w.cfg.Learners[0].ItemRetention = testRetention
	for at := int64(20_000_000); at <= 20_000_000+testRetention; at += testRetention / 4 {
		w.crash()
		w.tick(at, all)
		require.NoError(t, w.read(event.Impressions, fmt.Sprint(at), impression(fmt.Sprint(at), "new"), w.now))
		require.Equal(t, 2, w.m.learners[0].items.len())
		w.save()
	}
	w.tick(20_000_000+testRetention*9/8+1, all)
	require.NoError(t, w.read(event.Impressions, "end", impression("end", "new"), w.now))
	require.Equal(t, 1, w.m.learners[0].items.len())
	w.save()
	require.NotContains(t, w.store.items(t, "feed"), "old")
}

// TestItemsEndUnderAnotherPolicy: shares of selections end with their items, also while a policy that does not learn them is configured.
func TestItemsEndUnderAnotherPolicy(t *testing.T) {
	w := newWorld(t, endingConfig(t, delay.Silence{}))
	pass := func(to event.Millis) {
		w.tick(to, [event.Inputs]bool{true, true, true})
		w.walk(10)
	}
	pass(day)
	require.NoError(t, w.read(event.Impressions, "i", impression("i", "a", "b"), w.now))
	pass(day + 200_000)
	w.save()
	require.NotEmpty(t, w.store.fields["feed:attraction"])
	learns := w.cfg.Learners[0]
	not := learns
	not.New = func() delay.Learner {
		d := delay.NewDirect(policy.NewUtility(), delay.Silence{Horizon: not.PayoffHorizon})
		d.LearnAttraction(0)
		return d
	}
	w.restart([]LearnerConfig{not})
	pass(day + 3*testRetention)
	require.NoError(t, w.read(event.Impressions, "j", impression("j", "c", "d"), w.now))
	w.restart([]LearnerConfig{learns})
	w.requireNothingOfEnded()
	require.Zero(t, w.m.learners[0].delay.Status().Attraction.Impressions)
}
