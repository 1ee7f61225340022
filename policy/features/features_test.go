package features

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func space(t require.TestingT, d Declaration) *Space {
	s, err := New(d)
	require.NoError(t, err)
	return s
}

var shop = Declaration{
	User:  []Feature{{"age", 0, 100, false}, {"tenure", 0, 3650, false}},
	Item:  []Feature{{"price", 0, 500, false}, {Utility, 0, 1, false}, {"new", -1, 1, false}, {Predicted, 0, 20, false}},
	Cross: [][2]string{{"tenure", "price"}, {"age", Predicted}, {"price", "price"}},
}

func TestSpace(t *testing.T) {
	s := space(t, shop)
	require.Equal(t, 10, s.Dim())
	require.Equal(t, 2, s.Given())
	require.Equal(t, 6, s.Predicted())
	require.True(t, s.HasUtility())
	require.True(t, s.HasPredicted())
	require.Equal(t, []string{"intercept", "age", "tenure", "price", "utility", "new", "predicted",
		"tenure × price", "age × predicted", "price × price"}, s.Names())
	groups := []Group{Intercept, OfUser, OfUser, OfItem, OfItem, OfItem, OfItem, OfCross, OfCross, OfCross}
	for k, g := range groups {
		require.Equal(t, g, s.Group(k))
	}

	user, clamped := s.QuantiseUser(nil, []float64{100, math.NaN()})
	require.Equal(t, []int8{127, 0}, user)
	require.Zero(t, clamped)
	item, clamped := s.QuantiseItem(nil, []float64{-3, 0.5}, 1, 25)
	require.Equal(t, []int8{-127, 127, 64, 127}, item)
	require.Equal(t, uint64(1|1<<3), clamped, "price and predicted, by their place")
	require.Equal(t, []int8{127, 127, 0, -127, 127, 64, 127, 0, 127, 127}, s.Vector(nil, user, item))

	none := space(t, Declaration{})
	require.Equal(t, -1, none.Predicted())
	require.Equal(t, []int8{5, 127}, none.Vector([]int8{5}, nil, nil), "the intercept is always there")
	require.Panics(t, func() { s.Vector(nil, user, user) })
}

// TestCheck holds each fault to its place.
func TestCheck(t *testing.T) {
	many := Declaration{}
	for k := range 64 {
		many.Item = append(many.Item, Feature{string(rune('a'+k%26)) + string(rune('a'+k/26)), 0, 1, false})
	}
	for _, c := range []struct {
		d     Declaration
		group Group
		at    int
		want  string
	}{
		{Declaration{User: []Feature{{"a", 0, 1, false}, {"", 0, 1, false}}}, OfUser, 1, "features: user feature 2: it has no name"},
		{Declaration{User: []Feature{{"a", 0, 1, false}}, Item: []Feature{{"a", 0, 1, false}}}, OfItem, 0, "two features named a"},
		{Declaration{Item: []Feature{{"a", 1, 1, false}}}, OfItem, 0, "must rise from one number to another, not go from 1 to 1"},
		{Declaration{Item: []Feature{{"a", 0, math.NaN(), false}}}, OfItem, 0, "to NaN"},
		{Declaration{Item: []Feature{{"a", math.Inf(-1), 0, false}}}, OfItem, 0, "from -Inf"},
		{Declaration{Item: []Feature{{"a", -math.MaxFloat64, math.MaxFloat64, false}}}, OfItem, 0, "must rise"},
		{Declaration{User: []Feature{{Predicted, 0, 1, false}}}, OfUser, 0, "predicted is a number of a candidate, not of a user"},
		{Declaration{Item: []Feature{{"a", 0, 1, false}}, Cross: [][2]string{{"a", "a"}, {"a", "b"}}}, OfCross, 1, `features: cross feature 2: there is no feature named "b"`},
		{Declaration{Item: []Feature{{"a", 0, 1, false}, {"b", 0, 1, false}}, Cross: [][2]string{{"a", "b"}, {"b", "a"}}}, OfCross, 1, "it is cross 1 again"},
		{many, Intercept, 0, "features: 64 features and products are too many: there may be 63"},
	} {
		faults := c.d.Check()
		require.Len(t, faults, 1)
		require.Equal(t, c.group, faults[0].Group)
		require.Equal(t, c.at, faults[0].At)
		require.ErrorContains(t, faults[0], c.want)
		_, err := New(c.d)
		require.Equal(t, faults[0], err)
	}
	many.Item = many.Item[:63]
	require.Equal(t, MaxDim, space(t, many).Dim())
}

// TestQuantise: steps rise with the number, lie as far from it as rounding may, and are the ends of the range at its ends and beyond.
func TestQuantise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bound := rapid.Float64Range(-1e12, 1e12)
		f := Feature{"a", bound.Draw(t, "low"), bound.Draw(t, "high"), false}
		if f.Low > f.High {
			f.Low, f.High = f.High, f.Low
		}
		if f.High-f.Low < 1e-3 {
			f.High++
		}
		middle, half := f.Low/2+f.High/2, f.High/2-f.Low/2
		v, w := rapid.Float64().Draw(t, "v"), middle+half*rapid.Float64Range(-1.1, 1.1).Draw(t, "w")
		a, _ := f.Quantise(v)
		b, clamped := f.Quantise(w)
		require.Equal(t, v < w, v < w && a <= b, "%d and %d", a, b)
		require.Equal(t, w < f.Low || w > f.High, clamped)
		if !clamped {
			require.InDelta(t, w, middle+half*float64(b)/One, half/(2*One)+1e-9*math.Abs(middle)+1e-9*half)
		}
		mirrored := Feature{"a", -f.High, -f.Low, false}
		c, _ := mirrored.Quantise(-w)
		require.Equal(t, -b, c)
		for _, end := range []struct {
			v       float64
			step    int8
			clamped bool
		}{{f.Low, -One, false}, {f.High, One, false}, {math.Inf(-1), -One, true}, {math.Inf(1), One, true}, {math.NaN(), 0, false}} {
			step, clamped := f.Quantise(end.v)
			require.Equal(t, end.step, step, "%v", end.v)
			require.Equal(t, end.clamped, clamped)
		}
	})
	tiny := Feature{"a", 0, math.SmallestNonzeroFloat64, false}
	step, _ := tiny.Quantise(0)
	require.Zero(t, step)
}

// TestQuantise_Log: a wide range leaves steps for its small numbers, with either sign, and its ends stay its ends.
func TestQuantise_Log(t *testing.T) {
	f := Feature{"a", 0, 10_000, true}
	for v, want := range map[float64]int8{0: -127, 10: -61, 30: -32, 100: 0, 1000: 64, 10_000: 127} {
		step, clamped := f.Quantise(v)
		require.Equal(t, want, step, "%v", v)
		require.False(t, clamped)
	}
	step, clamped := f.Quantise(20_000)
	require.Equal(t, int8(One), step)
	require.True(t, clamped, "the range is one of the numbers themselves")
	both := Feature{"a", -10_000, 10_000, true}
	up, _ := both.Quantise(20)
	down, _ := both.Quantise(-20)
	require.Equal(t, int8(42), up)
	require.Equal(t, -up, down)
}

// FuzzVector holds vectors of any bytes, those of damaged state included, to the exact products.
func FuzzVector(f *testing.F) {
	s := space(f, shop)
	f.Add([]byte{0, 127, 129, 128, 1, 255})
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) < 6 {
			return
		}
		steps := make([]int8, 6)
		for k := range steps {
			steps[k] = int8(raw[k])
		}
		x := s.Vector([]int8{1, 2}, steps[:2], steps[2:])[2:]
		require.Len(t, x, s.Dim())
		require.Equal(t, int8(One), x[0])
		for k, step := range steps {
			require.Equal(t, max(step, -One), x[1+k])
		}
		for k, pair := range [][2]int{{2, 3}, {1, 6}, {3, 3}} {
			exact := float64(x[pair[0]]) * float64(x[pair[1]]) / One
			require.LessOrEqual(t, math.Abs(float64(x[7+k])-exact), 0.5)
		}
		require.Zero(t, testing.AllocsPerRun(1, func() { x = s.Vector(x[:0], steps[:2], steps[2:]) }))
	})
}
