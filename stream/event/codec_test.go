package event_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

const sampleRanking = `{"impression_id":"i-1","learner":"feed","time":"2026-11-21T10:00:00.000Z","items":["b","a"],` +
	`"decision":{"group":"ranker","policy":"ftrl","delay":"bold","partition":3,"offset":1042,"layout":1,` +
	`"propensities":[0.82,0.18],"instance":4,"explored":false,"seed":"9f00000000000a01","began":"2026-11-21T10:00:00.000Z",` +
	`"selection_deadline":"2026-11-21T10:30:00.000Z","payoff_deadline":"2026-12-21T10:30:00.000Z"}}`

// sampleExpected is a ranking of a policy that records each item's expected payoff.
const sampleExpected = `{"impression_id":"i-1","time":"2026-11-21T10:00:00.000Z","items":["b","a"],"decision":{"group":"ranker",` +
	`"policy":"egreedy","delay":"direct","partition":3,"offset":1044,"layout":1,"propensities":[0.5,0.5],"expected":[0.25,-1.000001],` +
	`"explored":false,"seed":"9f00000000000a01","began":"2026-11-21T10:00:00.000Z","payoff_deadline":"2026-12-21T10:30:00.000Z"}}`

// sampleArm is of an experiment whose guard has tripped, with a shadow.
const sampleArm = `{"impression_id":"i-1","learner":"control","time":"2026-11-21T10:00:00.000Z","items":["b","a"],"decision":{"group":"ranker",` +
	`"policy":"greedy","delay":"direct","partition":3,"offset":1045,"layout":1,"experiment":"feed","run":2,"arm":"new","arm_probability":0.9,` +
	`"unit":"1f3@2945","fallback":true,"covariate":0.03125,"verdict":{"run":2,"arm":"new","n":20000,"lower":-0.07,"upper":-0.0205},"shadows":{"bold":[1,0],"calm":[0,1]},` +
	`"seed":"9f00000000000a01","began":"2026-11-21T10:00:00.000Z","payoff_deadline":"2026-12-21T10:30:00.000Z"}}`

func millis(s string) event.Millis {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		panic(err)
	}
	return t.UnixMilli()
}

// TestSamples holds the codec to the documented wire format, byte for byte.
func TestSamples(t *testing.T) {
	d := event.NewDecoder(event.Limits{MaxCandidates: 2, MaxRecordBytes: 200})

	var i event.Impression
	text := `{"impression_id":"i-1","learner":"feed","time":"2026-11-21T10:00:00.000Z","candidates":[{"item":"a","utility":0.1},{"item":"b","utility":0.7}],"user":"u-1"}`
	require.NoError(t, d.Impression(&i, []byte("i-1"), []byte(text)))
	require.Equal(t, event.Impression{
		ID: []byte("i-1"), Learner: []byte("feed"), Time: millis("2026-11-21T10:00:00Z"), HasTime: true, HasUtilities: true, User: []byte("u-1"),
		Candidates: []event.Candidate{{Item: []byte("a"), Utility: 0.1}, {Item: []byte("b"), Utility: 0.7}},
	}, i)
	require.Equal(t, text, string(event.AppendImpression(nil, &i)))

	text = `{"impression_id":"i-1","candidates":[{"item":"a","features":[3,null],"predicted":0.6,"category":"news"},{"item":"b"}],"features":[0.4],"segment":"new"}`
	require.NoError(t, d.Impression(&i, []byte("i-1"), []byte(text)))
	require.Equal(t, event.Context{}, event.Context{Features: i.Context.Features}, "nothing of contexts is read")
	require.NoError(t, d.WithContext().Impression(&i, []byte("i-1"), []byte(text)))
	require.Equal(t, []float64{0.4}, i.Context.Features)
	require.Equal(t, []string{"new", "news", ""}, []string{string(i.Context.Segment), string(i.Context.Candidates[0].Category), string(i.Context.Candidates[1].Category)})
	require.InDelta(t, 0.6, i.Context.Candidates[0].Predicted, 0)
	require.Len(t, i.Context.Candidates[0].Features, 2)
	require.True(t, math.IsNaN(i.Context.Candidates[0].Features[1]) && math.IsNaN(i.Context.Candidates[1].Predicted))
	require.Equal(t, text, string(event.AppendImpression(nil, &i)))

	var s event.Selection
	text = `{"impression_id":"i-1","item":"b","time":"2026-11-21T10:00:04.000Z","utility":0.66,"shown":"utility"}`
	require.NoError(t, d.Selection(&s, []byte("i-1"), []byte(strings.Replace(text, ".000Z", "Z", 1))))
	require.Equal(t, event.Selection{
		ID: []byte("i-1"), Item: []byte("b"), Time: millis("2026-11-21T10:00:04Z"), HasTime: true, Utility: 0.66, HasUtility: true, ByUtility: true,
	}, s)
	require.Equal(t, text, string(event.AppendSelection(nil, &s)))

	var p event.Payoff
	text = `{"impression_id":"i-1","payoff":0.8,"time":"2026-11-28T09:00:00.000Z","item":"b","event_id":"e-9"}`
	require.NoError(t, d.Payoff(&p, []byte("i-1"), []byte(text)))
	require.Equal(t, event.Payoff{
		ID: []byte("i-1"), Payoff: 0.8, Time: millis("2026-11-28T09:00:00Z"), HasTime: true, Item: []byte("b"), EventID: []byte("e-9"),
	}, p)
	require.Equal(t, text, string(event.AppendPayoff(nil, &p)))

	var r event.Ranking
	require.NoError(t, d.Ranking(&r, []byte(sampleRanking)))
	require.Equal(t, event.Ranking{
		ID: []byte("i-1"), Learner: []byte("feed"), Time: millis("2026-11-21T10:00:00Z"), Items: [][]byte{[]byte("b"), []byte("a")},
		Decision: event.Decision{
			Group: "ranker", Policy: "ftrl", Delay: "bold", Partition: 3, Offset: 1042, Layout: 1, Propensities: []float64{0.82, 0.18},
			Instance: 4, Seed: 0x9f00000000000a01, SelectionDeadline: millis("2026-11-21T10:30:00Z"), HasSelection: true,
			Began: millis("2026-11-21T10:00:00Z"), PayoffDeadline: millis("2026-12-21T10:30:00Z"),
		},
	}, r)
	require.Equal(t, sampleRanking, string(event.AppendRanking(nil, &r)))

	text = `{"impression_id":"i-1","time":"2026-11-21T10:00:00.000Z","items":["b","a","c"],"decision":{"group":"ranker",` +
		`"policy":"moss","delay":"direct","partition":3,"offset":1043,"layout":1,"explored":true,"ranks":[1,2,0],"undecided":[2],` +
		`"seed":"9f00000000000a01","began":"2026-11-21T10:00:00.000Z","payoff_deadline":"2026-12-21T10:30:00.000Z"}}`
	require.NoError(t, d.Ranking(&r, []byte(text)))
	require.Equal(t, []int32{1, 2, 0}, r.Decision.Ranks)
	require.Equal(t, []int32{2}, r.Decision.Undecided)
	require.Equal(t, text, string(event.AppendRanking(nil, &r)))
	for _, faulty := range []string{`"ranks":[1,2]`, `"ranks":[1,2,1]`, `"ranks":[1,2,3]`, `"ranks":[-1,0,1]`, `"ranks":[0.5,1,2]`, `"ranks":{}`} {
		require.Error(t, d.Ranking(&r, []byte(strings.Replace(text, `"ranks":[1,2,0]`, faulty, 1))), faulty)
	}
	for _, faulty := range []string{`"undecided":[0,1]`, `"undecided":[3]`, `"undecided":[2,1]`, `"undecided":[1,1]`, `"undecided":["1"]`} {
		require.Error(t, d.Ranking(&r, []byte(strings.Replace(text, `"undecided":[2]`, faulty, 1))), faulty)
	}
	require.Error(t, d.Ranking(&r, []byte(strings.Replace(text, `"ranks":[1,2,0],`, "", 1))), "undecided ones without ranks")
}

// TestExpected: numbers of at most six decimals are written in their shortest form, and nothing else is read.
func TestExpected(t *testing.T) {
	d := event.NewDecoder(event.Limits{})
	var r event.Ranking
	require.NoError(t, d.Ranking(&r, []byte(sampleExpected)))
	require.Equal(t, []float64{0.25, -1.000001}, r.Decision.Expected)
	require.Equal(t, sampleExpected, string(event.AppendRanking(nil, &r)))
	for _, faulty := range []string{"0.25", "0.25,0.5,1", "0.25,0.1234567", "0.25,1000000.5", "0.25,-1e7", `0.25,"1"`, "0.25,null"} {
		require.Error(t, d.Ranking(&r, []byte(strings.Replace(sampleExpected, "0.25,-1.000001", faulty, 1))), faulty)
	}
	require.NoError(t, d.Ranking(&r, []byte(sampleRanking)))
	require.Empty(t, r.Decision.Expected, "nothing is left of the record before")

	r.Decision.Expected = []float64{0.1234565, math.Copysign(1e-9, -1)}
	require.Contains(t, string(event.AppendRanking(nil, &r)), `"expected":[0.123457,0],`, "they are rounded")
	r.Decision.Expected = []float64{math.NaN(), math.Inf(1)}
	require.Contains(t, string(event.AppendRanking(nil, &r)), `"expected":[-1000000,1000000],`, "and held within bounds")
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(-event.MaxExpected*1_000_000, event.MaxExpected*1_000_000).Draw(t, "millionths")
		require.Equal(t, n, event.Millionths(event.FromMillionths(n)))
	})
}

// TestFieldsThatDoNotApplyAreAbsent: also null means absent, and so does an optional string that is empty.
func TestFieldsThatDoNotApplyAreAbsent(t *testing.T) {
	d := event.NewDecoder(event.Limits{})
	var i event.Impression
	require.NoError(t, d.Impression(&i, []byte("é"), []byte(`{"candidates":[{"item":"a","utility":null}],"time":null,"learner":"","impression_id":"\u00e9","Time":3}`)))
	require.Equal(t, `{"impression_id":"é","candidates":[{"item":"a"}]}`, string(event.AppendImpression(nil, &i)))

	var p event.Payoff
	require.NoError(t, d.Payoff(&p, []byte("i"), []byte(`{"impression_id":"i","payoff":-0,"item":null,"event_id":"","more":[1,{"payoff":2}]}`)))
	require.Equal(t, `{"impression_id":"i","payoff":-0}`, string(event.AppendPayoff(nil, &p)))

	var r event.Ranking
	text := `{"impression_id":"i","time":"2026-11-21T10:00:00.000Z","items":["b"],"decision":{"group":"g","policy":"utility","delay":"direct",` +
		`"partition":0,"offset":0,"layout":1,"seed":"0000000000000000","began":"2026-11-21T10:00:00.000Z","payoff_deadline":"2026-12-21T10:30:00.000Z"}}`
	require.NoError(t, d.Ranking(&r, []byte(text)))
	require.Equal(t, int32(-1), r.Decision.Instance)
	require.False(t, r.Decision.HasSelection)
	require.Equal(t, text, string(event.AppendRanking(nil, &r)))
	r.Decision.Explored = true
	require.Contains(t, string(event.AppendRanking(nil, &r)), `"layout":1,"explored":true,"seed"`)
}

func ids(t *rapid.T, name string) []byte {
	return []byte(rapid.StringN(1, 40, event.MaxIDBytes).Filter(func(s string) bool { return strings.ToValidUTF8(s, "") == s }).Draw(t, name))
}

func optionalID(t *rapid.T, name string) []byte {
	if rapid.Bool().Draw(t, name+" given") {
		return ids(t, name)
	}
	return nil
}

var (
	floats = rapid.OneOf(rapid.Float64Range(0, 1), rapid.Map(rapid.Uint64(), math.Float64frombits).Filter(func(x float64) bool {
		return !math.IsNaN(x) && !math.IsInf(x, 0)
	}))
	times = rapid.Int64Range(event.MinTime, event.MaxTime)
	// items are distinct because a number that ends where a letter begins stands before each.
	items = func(t *rapid.T) (list [][]byte) {
		for k := range rapid.IntRange(1, 30).Draw(t, "items") {
			list = append(list, fmt.Appendf(nil, "%d%s", k, rapid.StringOf(rapid.RuneFrom([]rune("aé\"\\\x00\u2028😀"))).Draw(t, "item")))
		}
		return list
	}
)

// TestRoundTrip: decoding returns the encoded values, bit for bit, and encoding does not depend on the contents of
// dst. A test of the tables has selections and payoffs.
func TestRoundTrip(t *testing.T) {
	d, contextual := event.NewDecoder(event.Limits{}), event.NewDecoder(event.Limits{}).WithContext()
	prefix := []byte("prefix")
	t.Run("impression", rapid.MakeCheck(func(t *rapid.T) {
		want := event.Impression{ID: ids(t, "id"), Learner: optionalID(t, "learner"), User: optionalID(t, "user"), HasTime: rapid.Bool().Draw(t, "has time"), HasUtilities: rapid.Bool().Draw(t, "has utilities")}
		if want.HasTime {
			want.Time = times.Draw(t, "time")
		}
		for _, item := range items(t) {
			c := event.Candidate{Item: item}
			if want.HasUtilities {
				c.Utility = floats.Draw(t, "utility")
			}
			if rapid.Bool().Draw(t, "pinned") {
				c.Pin = int32(1 + 3*len(want.Candidates))
			}
			want.Candidates = append(want.Candidates, c)
		}
		drawFilled(t, &want)
		drawContext(t, &want)
		text := event.AppendImpression(bytes.Clone(prefix), &want)[len(prefix):]
		var got event.Impression
		require.NoError(t, contextual.Impression(&got, want.ID, text))
		require.Equal(t, show(want), show(got))
		require.NoError(t, d.Impression(&got, want.ID, text))
		want.Context = event.Context{}
		require.Equal(t, show(want), show(got))
	}))
	var got event.Ranking // reused, with all that stands in it from before
	t.Run("ranking", rapid.MakeCheck(func(t *rapid.T) {
		want := event.Ranking{ID: ids(t, "id"), Learner: optionalID(t, "learner"), Time: times.Draw(t, "time"), Items: items(t), Decision: event.Decision{
			Group: string(ids(t, "group")), Policy: string(ids(t, "policy")), Delay: string(ids(t, "delay")),
			Partition: rapid.Int32Min(0).Draw(t, "partition"), Offset: rapid.Int64Min(0).Draw(t, "offset"), Layout: rapid.IntRange(0, 1<<31-1).Draw(t, "layout"),
			Instance: rapid.Int32Min(-1).Draw(t, "instance"), Explored: rapid.Bool().Draw(t, "explored"), Seed: rapid.Uint64().Draw(t, "seed"),
			HasSelection: rapid.Bool().Draw(t, "has selection"), Began: times.Draw(t, "began"), PayoffDeadline: times.Draw(t, "payoff deadline"),
		}}
		if want.Decision.HasSelection {
			want.Decision.SelectionDeadline = times.Draw(t, "selection deadline")
		}
		if rapid.Bool().Draw(t, "has propensities") {
			for range want.Items {
				want.Decision.Propensities = append(want.Decision.Propensities, floats.Draw(t, "propensity"))
			}
		}
		if rapid.Bool().Draw(t, "has expected") {
			for range want.Items {
				n := rapid.Int64Range(-event.MaxExpected*1_000_000, event.MaxExpected*1_000_000).Draw(t, "expected")
				want.Decision.Expected = append(want.Decision.Expected, event.FromMillionths(n))
			}
		}
		if rapid.Bool().Draw(t, "has ranks") {
			for rank := range want.Items {
				want.Decision.Ranks = append(want.Decision.Ranks, int32(rank))
				if rank > 0 && rapid.Bool().Draw(t, "undecided") {
					want.Decision.Undecided = append(want.Decision.Undecided, int32(rank))
				}
			}
			if len(want.Items) > 1 && rapid.Bool().Draw(t, "guessed") {
				want.Decision.Undecided = []int32{0}
			}
			want.Decision.Ranks = rapid.Permutation(want.Decision.Ranks).Draw(t, "ranks")
		}
		drawAssignment(t, &want)
		text := event.AppendRanking(bytes.Clone(prefix), &want)[len(prefix):]
		require.NoError(t, d.Ranking(&got, text))
		require.Equal(t, show(want), show(got))
	}))
}

// drawContext gives an impression a context, of which anything may be absent.
func drawContext(t *rapid.T, r *event.Impression) {
	features := func() (list []float64) {
		for range rapid.IntRange(0, 3).Draw(t, "features") {
			list = append(list, rapid.OneOf(floats, rapid.Just(math.NaN())).Draw(t, "feature"))
		}
		return list
	}
	r.Context = event.Context{Features: features(), Segment: optionalID(t, "segment")}
	for range r.Candidates {
		c := event.CandidateContext{Features: features(), Predicted: math.NaN(), Category: optionalID(t, "category")}
		if rapid.Bool().Draw(t, "predicted given") {
			c.Predicted = floats.Draw(t, "predicted")
		}
		r.Context.Candidates = append(r.Context.Candidates, c)
	}
}

// drawAssignment puts a ranking into an experiment or not, and gives it shadows or not.
func drawAssignment(t *rapid.T, r *event.Ranking) {
	if d := &r.Decision; rapid.Bool().Draw(t, "in an experiment") {
		d.Assignment = event.Assignment{Experiment: string(ids(t, "experiment")), Run: rapid.Int32Min(1).Draw(t, "run"), Arm: string(ids(t, "arm")),
			Probability: rapid.Float64Range(1e-9, 1).Draw(t, "share"), Unit: optionalID(t, "unit"), Fallback: rapid.Bool().Draw(t, "fallback"),
			Covariate: rapid.Int32Range(0, 1_000_000).Draw(t, "covariate")}
		if rapid.Bool().Draw(t, "verdict") {
			d.Verdict = event.Verdict{Run: rapid.Int32Min(1).Draw(t, "run"), Arm: string(ids(t, "arm")), Units: rapid.Int64Min(0).Draw(t, "units"),
				Lower: floats.Draw(t, "lower"), Upper: floats.Draw(t, "upper")}
		}
	}
	if rapid.Bool().Draw(t, "ruled") {
		for i := range r.Items {
			r.Decision.Decided = append(r.Decision.Decided, int32(i))
		}
		r.Decision.Decided = rapid.Permutation(r.Decision.Decided).Draw(t, "decided")
	}
	for k := range rapid.IntRange(0, 2).Draw(t, "shadows") {
		order := make([]int32, len(r.Items))
		for i := range order {
			order[i] = int32(i)
		}
		r.Decision.Shadows = append(r.Decision.Shadows, event.Shadow{Name: fmt.Sprint(k, "é"), Order: rapid.Permutation(order).Draw(t, "order")})
	}
}

// TestAssignment: a decision's experiment is written and read as documented, and impossible ones are refused.
func TestAssignment(t *testing.T) {
	d := event.NewDecoder(event.Limits{})
	var r event.Ranking
	require.NoError(t, d.Ranking(&r, []byte(sampleArm)))
	require.Equal(t, event.Assignment{Experiment: "feed", Run: 2, Arm: "new", Probability: 0.9, Unit: []byte("1f3@2945"), Fallback: true,
		Covariate: 31_250}, r.Decision.Assignment)
	require.Equal(t, event.Verdict{Run: 2, Arm: "new", Units: 20000, Lower: -0.07, Upper: -0.0205}, r.Decision.Verdict)
	require.Equal(t, []event.Shadow{{Name: "bold", Order: []int32{1, 0}}, {Name: "calm", Order: []int32{0, 1}}}, r.Decision.Shadows)
	require.Equal(t, sampleArm, string(event.AppendRanking(nil, &r)))
	for was, faulty := range map[string]string{`"arm_probability":0.9`: `"arm_probability":0`, `"run":2,"arm":"new","arm_p`: `"run":0,"arm":"new","arm_p`,
		`"arm":"new","arm_p`: `"arm":"","arm_p`, `"fallback":true`: `"fallback":1`, `"n":20000`: `"n":-1`, `:0.03125`: `:0.0312501`, `"covariate":0`: `"covariate":1`,
		`"verdict":{"run":2,`: `"verdict":{`,
		`"bold":[1,0]`:        `"bold":[1,1]`, `"calm":[0,1]`: `"calm":[0]`, `"calm"`: `"bold"`, `[0,1]}`: `null}`, `"unit":"1f3@2945"`: `"unit":7`} {
		require.Error(t, d.Ranking(&r, []byte(strings.Replace(sampleArm, was, faulty, 1))), faulty)
	}
	require.NoError(t, d.Ranking(&r, []byte(sampleRanking)))
	require.Zero(t, r.Decision.Assignment, "nothing is left of the record before")
	require.Zero(t, r.Decision.Verdict)
	require.Empty(t, r.Decision.Shadows)
}

// TestNumbersAreWrittenAsByEncodingJSON, which makes them the shortest that read back as the same.
func TestNumbersAreWrittenAsByEncodingJSON(t *testing.T) {
	check := func(t require.TestingT, x float64) {
		want, err := json.Marshal(map[string]any{"impression_id": "i", "payoff": x})
		require.NoError(t, err)
		require.Equal(t, string(want), string(event.AppendPayoff(nil, &event.Payoff{ID: []byte("i"), Payoff: x})))
	}
	for _, x := range []float64{0, math.Copysign(0, -1), 1, 1e-6, 9.99e-7, -1e-7, 1e-10, 1e-100, 5e-324, 1e20, 1e21, -1.5e22, 1e23, math.MaxFloat64} {
		check(t, x)
	}
	rapid.Check(t, func(t *rapid.T) { check(t, floats.Draw(t, "x")) })
}

// TestEncodersAreTotal: values that no decoded record holds still become readable JSON.
func TestEncodersAreTotal(t *testing.T) {
	p := event.Payoff{ID: []byte("a\xff\x00\"\\\u2028\x1f\x7f\t"), Payoff: math.NaN(), Time: 1 << 62, HasTime: true}
	require.Equal(t, `{"impression_id":"a\ufffd\u0000\"\\`+"\u2028"+`\u001f`+"\x7f"+`\t","payoff":null,"time":"9999-12-31T23:59:59.999Z"}`, string(event.AppendPayoff(nil, &p)))
	require.True(t, oracleSound(event.AppendPayoff(nil, &p)))
	s := event.Selection{ID: []byte("i"), Item: []byte("\xe2\x80"), Utility: math.Inf(-1), HasUtility: true}
	require.Equal(t, `{"impression_id":"i","item":"\ufffd\ufffd","utility":null}`, string(event.AppendSelection(nil, &s)))
}

// TestNothingIsAllocated: neither way, once the decoder has seen records of their usual size.
func TestNothingIsAllocated(t *testing.T) {
	key, value, r := typical(20)
	r.Context.Features, r.Context.Segment = []float64{1, math.NaN()}, []byte("new")
	for range r.Candidates {
		r.Context.Candidates = append(r.Context.Candidates, event.CandidateContext{Features: []float64{0.5}, Predicted: 0.5, Category: []byte("news")})
	}
	value = event.AppendImpression(value[:0], r)
	a := answer(r, true)
	text, proto := event.AppendRanking(nil, a), event.AppendProtobufImpression(nil, r)
	d := event.NewFormatsDecoder(event.Limits{MaxCandidates: 20, MaxRecordBytes: 4000}, event.Formats{event.Protobuf}).WithContext()
	var (
		i       event.Impression
		ranking event.Ranking
		err     error
	)
	work := func() {
		err = errors.Join(err, d.Impression(&i, key, value), d.Ranking(&ranking, text), d.Impression(&i, key, proto))
		proto = event.AppendProtobufImpression(proto[:0], r)
		value = event.AppendImpression(value[:0], r)
		text = event.AppendRanking(text[:0], a)
	}
	work()
	require.Zero(t, testing.AllocsPerRun(1000, work))
	require.NoError(t, err)
}
