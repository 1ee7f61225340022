package partition

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// inGroups is testConfig with a learner that uses segments and categories only, and notes its calls.
func inGroups(t require.TestingT, notes *[]string) Config {
	s, err := features.New(features.Declaration{Segments: []string{"new", "loyal"}, Categories: true})
	require.NoError(t, err)
	cfg := testConfig()
	cfg.Learners[0].Context = NewContext(s, false)
	cfg.Learners[0].New = func() delay.Learner {
		return &tally{changed: map[policy.Item]bool{}, calls: notes,
			saw: func(c *policy.Context) { *notes = append(*notes, fmt.Sprintf("shown %v of %d", c.X, c.Segment)) }}
	}
	return cfg
}

// A learner gets the categories before it decides, again at an adoption, and none if a candidate
// has none. The segment stays with the impression to its end, through a checkpoint and an adoption.
func TestGroups(t *testing.T) {
	var notes []string
	w := newWorld(t, inGroups(t, &notes))
	w.now = day
	calls := func() []string {
		all := notes
		notes = nil
		return all
	}
	read := func(topic event.Topic, id, record string) {
		t.Helper()
		require.NoError(t, w.read(topic, id, []byte(record), day))
	}
	read(event.Impressions, "i", `{"impression_id":"i","segment":"loyal","candidates":[{"item":"a","utility":1},{"item":"b","utility":3,"category":"news"},{"item":"c","utility":2,"category":"sports"}]}`)
	require.Equal(t, []string{"category of 1 news", "category of 2 sports", "shown [127 127 127] of 2"}, calls())
	w.crash()
	require.Equal(t, []string{"category of 1 news", "category of 2 sports", "adopt 0 order [2 1 0]"}, calls(), "adopted")
	read(event.Selections, "i", `{"impression_id":"i","item":"c"}`)
	require.Equal(t, []string{"selected 0 item 2 knowing [127] of 2"}, calls())
	w.save()
	w.crash()
	calls()
	read(event.Payoffs, "i", `{"impression_id":"i","payoff":1}`)
	require.Equal(t, []string{"paid 0 item 2 payoff 1 knowing [127] of 2"}, calls(), "a checkpoint keeps it")

	read(event.Impressions, "j", `{"impression_id":"j","segment":"odd","candidates":[{"item":"a","utility":1,"category":""},{"item":"b","utility":2,"category":null}]}`)
	read(event.Impressions, "k", `{"impression_id":"k","candidates":[{"item":"b","utility":2,"category":"sports"}]}`)
	require.Equal(t, []string{"shown [127 127] of 0", "category of 1 sports", "shown [127] of 0"}, calls())
	require.Equal(t, ContextStatus{Looks: true, UnknownSegments: 1}, w.m.Learners()[0].Context, "who gives none is not unknown")
	read(event.Impressions, "l", `{"impression_id":"l","features":[1],"candidates":[{"item":"b","utility":2,"features":[1,null]}]}`)
	require.Equal(t, []string{"shown [127] of 0"}, calls(), "features are for learners that declare some")
	require.Empty(t, w.letters)
}

// An invalid name is refused by a learner that uses it, and ignored by others.
func TestGroups_Faults(t *testing.T) {
	for _, c := range []struct{ record, reason, says string }{
		{`{"impression_id":"i","segment":7,"candidates":[{"item":"a","utility":1}]}`, "wrong_type", "segment is not a string but: number"},
		{`{"impression_id":"i","candidates":[{"item":"a","utility":1},{"item":"b","utility":1,"category":["x"]}]}`, "wrong_type", "candidates[1]: category is not a string but: array"},
		{`{"impression_id":"i","candidates":[{"item":"a","utility":1,"category":"` + strings.Repeat("x", event.MaxIDBytes+1) + `"}]}`, "id_too_long", "candidates[0]: category has 1025 bytes"},
	} {
		var notes []string
		for _, looks := range []bool{true, false} {
			w := newWorld(t, testConfig())
			if looks {
				w = newWorld(t, inGroups(t, &notes))
			}
			w.now = day
			require.NoError(t, w.read(event.Impressions, "i", []byte(c.record), day))
			if !looks {
				require.Empty(t, w.letters)
				continue
			}
			require.Len(t, w.letters, 1)
			require.Equal(t, c.reason, w.letters[0].Reason)
			require.Contains(t, w.letters[0].Detail, c.says)
			require.Empty(t, notes)
		}
	}
}

// A missed impression is fed with its segment, unless the learner's segments have changed.
func TestGroups_Missed(t *testing.T) {
	c := grouped(t)
	require.True(t, c.holds([]int8{2, 5, 1, 2, 3}, 2, true))
	require.False(t, c.holds([]int8{3, 5, 1, 2, 3}, 2, true))
	require.False(t, c.holds([]int8{-1, 5, 1, 2, 3}, 2, true))
	require.False(t, c.holds([]int8{5, 1, 2, 3}, 1, true))

	d := &outcomeLog{}
	l := &learner{storedLearner: storedLearner{name: "feed"}, delay: d, cfg: &LearnerConfig{PayoffMax: 10, Context: c}}
	l.items = newItemIndex(NewNameTable())
	l.items.intern(0)
	var a unconfigured
	var b joiner
	a.miss("feed", nil, &entry{offset: 15, items: []policy.Item{0}, selected: 0, alone: true, instance: -1, began: 82,
		keptContext: keptContext{hasContext: true, ofUser: 2, context: []int8{2, 127, 64, 0, 0}}})
	var changes state.Changes
	a.seal(&changes)
	require.NoError(t, b.deliver(l, []state.Field{{Field: changes.Writes[0].Field, Value: changes.Writes[0].Value}}))
	require.Len(t, d.expired, 1)
	require.Equal(t, []int8{127, 127, 64, 0, 0, 64}, d.expired[0].X)
	require.EqualValues(t, 2, d.expired[0].Segment)
}

// Passing segments and categories takes no memory once their names have been seen, however many there have been.
func TestGroups_NothingIsAllocated(t *testing.T) {
	c := grouped(t)
	imp := event.Impression{Context: event.Context{Segment: []byte(strings.Repeat("a name longer than most", 4)), Features: []float64{1}}}
	var items []policy.Item
	for k := range 20 {
		imp.Candidates = append(imp.Candidates, event.Candidate{Item: fmt.Append(nil, k)})
		imp.Context.Candidates = append(imp.Context.Candidates, event.CandidateContext{Category: fmt.Append(nil, "a category with quite a long name, number ", k%7)})
		items = append(items, policy.Item(k))
	}
	l, r := &silent{}, &Reading{}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if f := c.Read(r, &imp, "feed"); f != nil {
			t.Fatal(f)
		}
		c.Categorise(l, r, &imp, items)
	}))
	require.Equal(t, "a category with quite a long name, number 5", l.last)
	require.EqualValues(t, 1, r.unknown)
	for k := range maxCategories + 1 {
		r.category(fmt.Append(nil, k))
	}
	require.Len(t, r.categories, 1+7, "7 were there before")
}

// silent is a learner that keeps the last category it got.
type silent struct {
	delay.Learner
	last string
}

func (s *silent) Categorise(_ policy.Item, name string) { s.last = name }

// A field of a cell is about its item alone.
func TestNumbersIn(t *testing.T) {
	for field, want := range map[string][]policy.Item{"7": {7}, "7|2": {7}, "7:9": {7, 9}, "x": nil} {
		var got []policy.Item
		for i := range numbersIn([]byte(field)) {
			got = append(got, i)
		}
		require.Equal(t, want, got, field)
	}
}

// An explanation of an impression goes by its segment and its categories; one that has no context that fits goes by none.
func TestGroups_Explained(t *testing.T) {
	s, err := features.New(features.Declaration{Segments: []string{"new", "loyal"}, Categories: true})
	require.NoError(t, err)
	cfg := testConfig()
	belief := policy.Belief{Sigma: 0.5, EstimateSigma: true, Prior: policy.EmpiricalPrior}
	p, err := policy.NewMOSS(belief)
	require.NoError(t, err)
	cfg.Learners[0].Context = NewContext(s, false)
	cfg.Learners[0].New = func() delay.Learner {
		d, err := delay.NewContextual(p, delay.ContextualConfig{Space: s, Belief: belief})
		require.NoError(t, err)
		return d
	}
	w := newWorld(t, cfg)
	w.now = day
	for k := range 40 {
		id, segment, payoff := fmt.Sprint("i", k), "new", 0.9
		if k%2 > 0 {
			segment, payoff = "loyal", 0.1
		}
		require.NoError(t, w.read(event.Impressions, id, fmt.Appendf(nil, `{"impression_id":%q,"segment":%q,"candidates":[{"item":"a","utility":1,"category":"good"}]}`, id, segment), day))
		require.NoError(t, w.read(event.Selections, id, fmt.Appendf(nil, `{"impression_id":%q,"item":"a"}`, id), day))
		require.NoError(t, w.read(event.Payoffs, id, fmt.Appendf(nil, `{"impression_id":%q,"payoff":%g}`, id, payoff), day))
	}
	require.Empty(t, w.letters)
	adds := func(record string) (in map[delay.Cause]float64) {
		var imp event.Impression
		require.NoError(t, event.NewDecoder(event.Limits{}).WithContext().Impression(&imp, []byte("x"), []byte(record)))
		x, err := (&Offline{Machine: w.m}).Explain("feed", [][]byte{imp.Candidates[0].Item}, []float64{0}, &imp, 1)
		require.NoError(t, err)
		in = map[delay.Cause]float64{}
		for _, part := range x.Parts[0] {
			in[part.Cause] += part.Adds
		}
		return in
	}
	young := adds(`{"impression_id":"x","segment":"new","candidates":[{"item":"a"}]}`)
	loyal := adds(`{"impression_id":"x","segment":"loyal","candidates":[{"item":"a"}]}`)
	require.Greater(t, young[delay.OfCell], 0.01)
	require.Less(t, loyal[delay.OfCell], -0.01)
	require.Zero(t, adds(`{"impression_id":"x","segment":7,"candidates":[{"item":"a"}]}`)[delay.OfCell])
}
