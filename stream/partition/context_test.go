package partition

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

func shopContext(t require.TestingT, missingZero bool) *Context {
	s, err := features.New(features.Declaration{
		User:  []features.Feature{{Name: "age", Low: 0, High: 100}},
		Item:  []features.Feature{{Name: "price", Low: 0, High: 10}, {Name: features.Predicted, Low: 0, High: 1}, {Name: "new", Low: -1, High: 1}},
		Cross: [][2]string{{"age", "price"}},
	})
	require.NoError(t, err)
	return NewContext(s, missingZero)
}

// grouped is shopContext with segments and categories.
func grouped(t require.TestingT) *Context {
	d := features.Declaration{Segments: []string{"new", "loyal"}, Categories: true, Cross: [][2]string{{"age", "price"}}}
	d.User, d.Item = append(d.User, shopContext(t, true).space.User()...), append(d.Item, shopContext(t, true).space.Item()...)
	s, err := features.New(d)
	require.NoError(t, err)
	return NewContext(s, true)
}

// seeing is testConfig with a learner that uses contexts, and notes its calls.
func seeing(t require.TestingT, missingZero bool, notes *[]string) Config {
	cfg := testConfig()
	cfg.Learners[0].Context = shopContext(t, missingZero)
	cfg.Learners[0].New = func() delay.Learner {
		return &tally{changed: map[policy.Item]bool{}, calls: notes, saw: func(c *policy.Context) { *notes = append(*notes, fmt.Sprintf("shown %v", c.X)) }}
	}
	return cfg
}

// naiveStep is the step of a number, written down as it is defined.
func naiveStep(v, low, high float64) int {
	if math.IsNaN(v) {
		return 0
	}
	v = math.Min(math.Max(v, low), high)
	return int(math.Round(127 * (2*(v-low)/(high-low) - 1)))
}

// naiveX is the vector of a candidate.
func naiveX(age float64, c *event.CandidateContext) []int {
	price, fresh := math.NaN(), math.NaN()
	if len(c.Features) > 0 {
		price, fresh = c.Features[0], c.Features[1]
	}
	x := []int{127, naiveStep(age, 0, 100), naiveStep(price, 0, 10), naiveStep(c.Predicted, 0, 1), naiveStep(fresh, -1, 1)}
	return append(x, int(math.Round(float64(x[1])*float64(x[2])/127)))
}

// Across crashes, checkpoints and adoption, a learner sees the same context of the
// selected item from the decision to the end: that of the impression's own numbers.
func TestContext_FollowsTheSelection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var notes []string
		cfg, groups := seeing(t, true, &notes), rapid.Bool().Draw(t, "groups")
		if groups {
			cfg.Learners[0].Context = grouped(t)
		}
		w := newWorld(t, cfg)
		w.now = day
		number := rapid.OneOf(rapid.Float64Range(-20, 120), rapid.Just(math.NaN()), rapid.SampledFrom([]float64{0, 1, 10, 100}))
		for k := range rapid.IntRange(1, 12).Draw(t, "impressions") {
			id := fmt.Sprint("i", k)
			imp := event.Impression{ID: []byte(id), HasUtilities: true, Context: event.Context{Features: []float64{number.Draw(t, "age")}}}
			for item := range rapid.IntRange(1, 5).Draw(t, "candidates") {
				imp.Candidates = append(imp.Candidates, event.Candidate{Item: fmt.Append(nil, "item", item), Utility: rapid.Float64().Draw(t, "utility")})
				c := event.CandidateContext{Predicted: number.Draw(t, "predicted")}
				if rapid.Bool().Draw(t, "with features") {
					c.Features = []float64{number.Draw(t, "price"), number.Draw(t, "new")}
				}
				imp.Context.Candidates = append(imp.Context.Candidates, c)
			}
			segment := rapid.SampledFrom([]string{"", "new", "loyal", "odd"}).Draw(t, "segment")
			imp.Context.Segment = []byte(segment)
			shake := func() {
				switch rapid.IntRange(0, 5).Draw(t, "between") {
				case 0:
					w.save()
				case 1:
					w.crash()
				}
			}
			chosen := rapid.IntRange(0, len(imp.Candidates)-1).Draw(t, "chosen")
			want := fmt.Sprintf(" knowing %v", naiveX(imp.Context.Features[0], &imp.Context.Candidates[chosen]))
			if at := slices.Index([]string{"", "new", "loyal"}, segment); groups && at > 0 {
				want += fmt.Sprint(" of ", at)
			}
			selection := event.AppendSelection(nil, &event.Selection{ID: imp.ID, Item: imp.Candidates[chosen].Item})
			early := rapid.Bool().Draw(t, "selected early")
			if early {
				require.NoError(t, w.read(event.Selections, id, selection, w.now))
				shake()
			}
			require.NoError(t, w.read(event.Impressions, id, event.AppendImpression(nil, &imp), w.now))
			shake()
			if !early {
				require.NoError(t, w.read(event.Selections, id, selection, w.now))
			}
			require.Condition(t, func() bool {
				return slices.ContainsFunc(notes, func(s string) bool { return strings.HasPrefix(s, "selected") && strings.HasSuffix(s, want) })
			},
				"%s in %v", want, notes)
			shake()
			notes = nil
			require.NoError(t, w.read(event.Payoffs, id, event.AppendPayoff(nil, &event.Payoff{ID: imp.ID, Payoff: 0.5}), w.now))
			require.Len(t, notes, 1)
			require.Contains(t, notes[0], "paid")
			require.True(t, strings.HasSuffix(notes[0], want), "%s: %s", want, notes[0])
			w.tick(w.now+1000, [event.Inputs]bool{true, true, true})
			shake()
		}
		require.Empty(t, w.letters)
	})
}

// The learner sees rows in increasing utility, whatever the order of the record. Numbers outside their range are counted.
func TestContext_InTheOrderOfUtility(t *testing.T) {
	var notes []string
	w := newWorld(t, seeing(t, true, &notes))
	w.now = day
	require.NoError(t, w.read(event.Impressions, "i", []byte(`{"impression_id":"i","features":[150],"candidates":[{"item":"a","utility":2,"features":[10,0],"predicted":0},`+
		`{"item":"b","utility":1,"predicted":2}]}`), day))
	require.Equal(t, []string{"shown [127 127 0 127 0 0 127 127 127 -127 0 127]"}, notes)
	s := w.m.Learners()[0].Context
	require.Equal(t, ContextStatus{Looks: true, Missing: 2, Clamped: []FeatureCount{{"age", 1}, {"price", 0}, {"predicted", 1}, {"new", 0}}}, s)
}

// Every fault is a dead letter with cause and place, and leaves no trace. A learner without a context ignores contexts.
func TestContext_Faults(t *testing.T) {
	const sound = `{"impression_id":"i","features":[30],"candidates":[{"item":"a","utility":1,"features":[1,0],"predicted":0.5},{"item":"b","utility":2,"features":[1,0],"predicted":0.5}]}`
	for _, c := range []struct{ from, to, reason, says, pointer string }{
		{`"features":[30]`, `"x":1`, "missing_features", `features is absent or empty, learner "feed" declares 1 (age)`, "/features"},
		{`"features":[30]`, `"features":null`, "missing_features", "features is absent or empty", "/features"},
		{`"features":[30]`, `"features":[30,1,2]`, "wrong_features", `features has 3 numbers, learner "feed" declares 1 (age)`, "/features"},
		{`"features":[30]`, `"features":[null]`, "missing_features", "features[0], age, is null", "/features/0"},
		{`"features":[30]`, `"features":["30"]`, "wrong_type", "features[0]", "/features/0"},
		{`"features":[30]`, `"features":30`, "wrong_type", "features is not an array but: number", "/features"},
		{`"features":[30]`, `"features":[1e999]`, "not_finite", "features[0]", "/features/0"},
		{`"b","utility":2,"features":[1,0]`, `"b","utility":2,"features":[1]`, "wrong_features", `candidates[1]: features has 1 numbers, learner "feed" declares 2 (price, new)`, "/candidates/1/features"},
		{`"b","utility":2,"features":[1,0]`, `"b","utility":2`, "missing_features", `candidates[1]: features is absent or empty, learner "feed" declares 2 (price, new)`, "/candidates/1/features"},
		{`"b","utility":2,"features":[1,0]`, `"b","utility":2,"features":[1,null]`, "missing_features", "candidates[1]: features[1], new, is null", "/candidates/1/features/1"},
		{`"b","utility":2,"features":[1,0],"predicted":0.5`, `"b","utility":2,"features":[1,0]`, "missing_predicted", `candidates[1]: predicted is absent, and learner "feed" needs it`, "/candidates/1/predicted"},
		{`"b","utility":2,"features":[1,0],"predicted":0.5`, `"b","utility":2,"features":[1,0],"predicted":"0.5"`, "wrong_type", "candidates[1]: predicted", "/candidates/1/predicted"},
	} {
		record := strings.Replace(sound, c.from, c.to, 1)
		require.NotEqual(t, sound, record)
		var notes []string
		w := newWorld(t, seeing(t, false, &notes))
		w.now = day
		require.NoError(t, w.read(event.Impressions, "i", []byte(record), day))
		require.Len(t, w.letters, 1, record)
		require.Equal(t, c.reason, w.letters[0].Reason, record)
		require.Contains(t, w.letters[0].Detail, c.says, record)
		require.Empty(t, notes)
		require.Zero(t, w.m.Learners()[0].Items)
		var imp event.Impression
		require.NoError(t, event.NewDecoder(event.Limits{}).WithContext().Impression(&imp, []byte("i"), []byte(record)))
		require.Equal(t, c.pointer, shopContext(t, false).Read(new(Reading), &imp, "feed").Pointer)

		w = newWorld(t, testConfig())
		w.now = day
		require.NoError(t, w.read(event.Impressions, "i", []byte(record), day))
		require.Empty(t, w.letters)
	}
}

// An adopted impression whose context cannot be decoded has none.
func TestContext_AdoptedWithout(t *testing.T) {
	var notes []string
	w := newWorld(t, seeing(t, true, &notes))
	w.now = day
	require.NoError(t, w.read(event.Impressions, "i", []byte(`{"impression_id":"i","features":[30],"candidates":[{"item":"a","utility":1},{"item":"b","utility":2}]}`), day))
	w.cfg.Learners[0].Context = NewContext(func() *features.Space {
		s, err := features.New(features.Declaration{User: []features.Feature{{Name: "age", Low: 0, High: 100}, {Name: "more", Low: 0, High: 1}}})
		require.NoError(t, err)
		return s
	}(), true)
	notes = nil
	w.crash()
	require.NoError(t, w.read(event.Selections, "i", []byte(`{"impression_id":"i","item":"a"}`), day))
	require.NoError(t, w.read(event.Payoffs, "i", []byte(`{"impression_id":"i","payoff":1}`), day))
	require.Equal(t, []string{"adopt 0 order [1 0]", "selected 0 item 0 knowing []", "paid 0 item 0 payoff 1 knowing []"}, notes)
	require.EqualValues(t, 1, w.m.Account().Impressions.Paid)
}

// An entry takes one byte for each number and two besides, and after the selection those of the user and of one item.
func TestContext_EntryIsSmall(t *testing.T) {
	var notes []string
	w := newWorld(t, seeing(t, true, &notes))
	w.now = day
	size := func() int {
		w.save()
		return len(w.store.find(state.IDOf([]byte("i"))).Value)
	}
	plain := newWorld(t, testConfig())
	plain.now = day
	record := []byte(`{"impression_id":"i","features":[30],"candidates":[{"item":"a","utility":1},{"item":"b","utility":2},{"item":"c","utility":3}]}`)
	require.NoError(t, w.read(event.Impressions, "i", record, day))
	require.NoError(t, plain.read(event.Impressions, "i", record, day))
	plain.save()
	bare := len(plain.store.find(state.IDOf([]byte("i"))).Value)
	before := size()
	require.InDelta(t, bare+2+1+3*3, before, 2) // of the flags
	require.NoError(t, w.read(event.Selections, "i", []byte(`{"impression_id":"i","item":"a"}`), day))
	require.LessOrEqual(t, size(), before-2*3)
}
