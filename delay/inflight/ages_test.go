package inflight

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// seenPayoff is one that has come: when its selection began, and how much later it came.
type seenPayoff struct{ began, age int64 }

// slowEstimate goes through all payoffs for each bin. A payoff is forgotten by half in a horizon, or as long as leaves 256 of so much.
func slowEstimate(g *Scheme, payoffs []seenPayoff, tick int64, one float64) []float64 {
	left := func(x seenPayoff, halfLife float64) float64 {
		b := g.BucketOf(x.began, tick)
		return math.Pow(0.5, float64(max(0, tick-(b.Start()+b.End())/2))/halfLife)
	}
	halfLife := math.Inf(1)
	if float64(len(payoffs)) >= 256*one {
		for halfLife = float64(g.Horizon()); ; halfLife *= 2 {
			var all float64
			for _, x := range payoffs {
				all += left(x, halfLife)
			}
			if all >= 256*one {
				break
			}
		}
	}
	bins := g.Bins()
	ends := slowBins(g.Horizon())
	seen := func(k int) (of, upTo float64) { // payoffs in a bin, and those to compare them with
		for _, x := range payoffs {
			youngest := g.BucketOf(x.began, tick).End()
			if bin := g.Bin(x.age); bin <= k && youngest+min(ends[k], g.Horizon()) <= tick {
				upTo += left(x, halfLife)
				if bin == k {
					of += left(x, halfLife)
				}
			}
		}
		return of, upTo
	}
	come := make([]float64, bins)
	come[bins-1] = 1
	for k := bins - 1; k > 0; k-- {
		uniform := 1 / float64(k+1)
		below, all, weight := 2*one*uniform, 2*one, 1.
		for j := k - 1; j >= 0; j-- { // a bin with payoffs to compare counts the less, the more such bins lie between
			if of, upTo := seen(j); upTo > 0 {
				below, all, weight = below+weight*of, all+weight*upTo, weight*math.Sqrt(0.5)
			}
		}
		of, upTo := seen(k)
		prior := 2 * one * float64(k+1) / float64(bins)
		come[k-1] = come[k] * (1 - (of+prior*min(uniform, below/all))/(upTo+prior))
	}
	return come
}

// Whatever is counted and merged, each payoff stands in the row of its block at the tick. A store that receives each change has all
// of it. The estimate is that of the payoffs themselves.
func TestAges_ArePayoffsByBlockAndBin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := grids().Draw(t, "grid")
		now := times().Draw(t, "now")
		tick := g.Tick(now)
		var ages Ages
		var payoffs []seenPayoff
		stored := map[Bucket]string{}
		harvest := func(row Bucket) {
			if text := ages.AppendRow(nil, row); text != nil {
				stored[row] = string(text)
			} else {
				delete(stored, row)
			}
		}
		add := func(t *rapid.T) {
			x := seenPayoff{began: max(earliest, now-rapid.Int64Range(-g.Unit(), 2*g.Horizon()).Draw(t, "ago"))}
			x.age = rapid.OneOf(rapid.Int64Range(-1, g.Horizon()), rapid.Just(g.Horizon()+1)).Draw(t, "age")
			row := ages.Row(&g, x.began, tick)
			ages.Add(&g, row, x.age, 1)
			harvest(row)
			if x.age = max(0, x.age); x.age <= g.Horizon() {
				payoffs = append(payoffs, x)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": add, "add again": add,
			"pass": func(t *rapid.T) {
				now += rapid.OneOf(rapid.Int64Range(0, 10*g.Unit()), rapid.Int64Range(0, 2*g.Horizon())).Draw(t, "ms")
				tick = g.Tick(now)
				changed := map[Bucket]bool{}
				ages.Merge(&g, tick, func(row Bucket) { changed[row] = true })
				for row := range changed {
					harvest(row)
				}
				ages.Merge(&g, tick, func(row Bucket) { require.Fail(t, "once is enough", "%v", row) })
			},
			"": func(t *rapid.T) {
				rows, want := map[Bucket][]int64{}, map[Bucket][]int64{}
				var order []Bucket
				expected := map[Bucket]string{}
				ages.Each(func(row Bucket) {
					order = append(order, row)
					rows[row] = ages.row(&g, row).bins
					expected[row] = string(ages.AppendRow(nil, row))
				})
				require.True(t, slices.IsSortedFunc(order, Bucket.Compare))
				require.Equal(t, expected, stored)
				for _, x := range payoffs {
					row := g.BucketOf(x.began, tick)
					if want[row] == nil {
						want[row] = make([]int64, g.Bins())
					}
					want[row][g.Bin(x.age)]++
				}
				require.Equal(t, want, rows)
				for _, one := range []float64{1, 1. / 64} { // with the second, four payoffs are enough to forget some
					late := Estimate(&g, tick, one, &ages)
					require.InDeltaSlice(t, slowEstimate(&g, payoffs, tick, one), late.Shares(), 0.6/precision)
				}
				var read Ages
				for row, text := range stored {
					require.NoError(t, read.SetRow(&g, row, []byte(text)))
				}
				require.Equal(t, append([]ageRow{}, ages.rows...), append([]ageRow{}, read.rows...))
			},
		})
	})
}

// The ages of two partitions, whose event times differ, add up row by row.
func TestAges_PlusAddsCounts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := grids().Draw(t, "grid")
		var parts [2]Ages
		var counts [2][]int64
		for k := range parts {
			tick := g.Tick(lately + rapid.Int64Range(-g.Horizon(), g.Horizon()).Draw(t, "pass"))
			counts[k] = make([]int64, g.Bins())
			for range rapid.IntRange(0, 20).Draw(t, "payoffs") {
				began := lately - rapid.Int64Range(0, 3*g.Horizon()).Draw(t, "ago")
				age := rapid.Int64Range(0, g.Horizon()).Draw(t, "age")
				parts[k].Add(&g, parts[k].Row(&g, began, tick), age, 1)
				counts[k][g.Bin(age)]++
			}
		}
		sum := parts[0].Plus(&g, parts[1])
		require.Equal(t, sum, parts[1].Plus(&g, parts[0]))
		total := make([]int64, g.Bins())
		sum.Each(func(row Bucket) {
			for k, n := range sum.row(&g, row).bins {
				total[k] += n
			}
		})
		for k := range total {
			require.Equal(t, counts[0][k]+counts[1][k], total[k])
		}
		// They may overlap: the next tick brings those of a block together.
		merged := sum.Plus(&g, Ages{})
		merged.Merge(&g, g.Tick(lately+10*longest), func(Bucket) {})
		for k, r := range merged.rows {
			require.True(t, k == 0 || merged.rows[k-1].block.End() <= r.block.Start())
			for k, n := range r.bins {
				total[k] -= n
			}
		}
		require.Equal(t, make([]int64, g.Bins()), total)
	})
}

// Event times of others may be ahead or behind, and the estimate still is a distribution.
func TestEstimate_IsADistribution(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := grids().Draw(t, "grid")
		var ages Ages
		for range rapid.IntRange(0, 30).Draw(t, "payoffs") {
			began := lately - rapid.Int64Range(0, 3*g.Horizon()).Draw(t, "ago")
			ages.Add(&g, ages.Row(&g, began, g.Tick(lately)), rapid.Int64Range(0, g.Horizon()).Draw(t, "age"), 1)
		}
		late := Estimate(&g, g.Tick(lately+rapid.Int64Range(-2*g.Horizon(), 2*g.Horizon()).Draw(t, "pass")), 1, &ages)
		require.True(t, late.Check(&g), "%v", late.Shares())
		require.Len(t, late.Shares(), g.Bins())
		last := 0.0
		for _, age := range []int64{-1, 0, 1, g.Unit() - 1, g.Unit(), g.Horizon() / 3, g.Horizon() - 1, g.Horizon(), g.Horizon() + 1} {
			if x := late.By(&g, age); age >= 0 && age >= g.Unit() {
				require.GreaterOrEqual(t, x, last, "it does not fall")
				last = x
			}
		}
		require.Equal(t, 1.0, late.By(&g, g.Horizon()))
		require.Zero(t, late.By(&g, 0))
		ends := slowBins(g.Horizon())
		for k, end := range ends[:len(ends)-1] {
			require.InDelta(t, late.Shares()[k], late.By(&g, end), 1e-12, "the end of bin %d", k)
		}
	})
}

func TestLateness_WithoutAgesIsUniform(t *testing.T) {
	g := NewScheme(day)
	var l DelayDistribution
	require.True(t, l.Check(&g))
	for _, age := range []int64{0, 1, 1000, day / 3, day} {
		require.InDelta(t, float64(age)/day, l.By(&g, age), 1e-15)
	}
	for _, come := range [][]float64{{1}, make([]float64, g.Bins()), slices.Repeat([]float64{math.NaN()}, g.Bins()),
		append(slices.Repeat([]float64{0.5}, g.Bins()-2), 0.4, 1), append(slices.Repeat([]float64{0.5}, g.Bins()-1), 1.1)} {
		l := NewDelayDistribution(come)
		require.False(t, l.Check(&g), "%v", come)
	}
	l = NewDelayDistribution(append(slices.Repeat([]float64{0.5}, g.Bins()-1), 1))
	require.True(t, l.Check(&g))
}

// Delays are exponential, and four of five selections began so lately that most of their payoffs are still to come. Of those a
// larger part is paid, as where policies have learned. The estimate is the truth to 0.015, while of the observed ages far too many
// are short. By the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart, the 60,000 settled payoffs alone miss that with
// probability 2·exp(−2·60,000·0.015²) < 10⁻¹¹. At short ages more payoffs than these are compared.
func TestEstimate_IsRightWhereMostBeganLately(t *testing.T) {
	const mean, horizon, settled, recent, tolerance = 3_000_000.0, 12_000_000, 60_000, 400_000, 0.015
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	g := NewScheme(horizon)
	tick := g.Tick(lately)
	all := 1 - math.Exp(-horizon/mean)
	truth := func(age int64) float64 { return (1 - math.Exp(-float64(age)/mean)) / all }
	delay := func() int64 { return int64(-mean * math.Log(1-rng.Float64()*all)) }
	var ages Ages
	seen := make([]float64, g.Bins())
	count := func(ago int64) {
		if age := delay(); age <= ago {
			ages.Add(&g, ages.Row(&g, tick-ago, tick), age, 1)
			seen[g.Bin(age)]++
		}
	}
	for range settled {
		count(horizon + 4*g.Unit() + rng.Int64N(horizon))
	}
	for range recent {
		if ago := rng.Int64N(horizon / 3); rng.Float64() < 1.5-float64(ago)/(horizon/3) {
			count(ago)
		}
	}
	late := Estimate(&g, tick, 1, &ages)
	var total, sum, worst, plain float64
	for _, n := range seen {
		total += n
	}
	for k, n := range seen {
		sum += n
		end := min(g.ends[k], horizon)
		worst = max(worst, math.Abs(late.Shares()[k]-truth(end)))
		plain = max(plain, math.Abs(sum/total-truth(end)))
	}
	t.Logf("of %.0f payoffs: %.4f off, a histogram of the ages %.4f", total, worst, plain)
	require.Less(t, worst, tolerance)
	require.Greater(t, plain, 10*tolerance)
}

// Early selections are compared up to their horizon. So are sums with them.
func TestAges_Early(t *testing.T) {
	g := NewScheme(30 * day)
	early, late := ageRow{block: g.BucketOf(lately, Never)}, ageRow{block: g.BucketOf(lately+day, Never)}
	one, two := Ages{Early: Early{day, lately + 1000}}, Ages{Early: Early{2 * day, lately + 500}}
	for _, a := range []Ages{one, one.Plus(&g, Ages{}), (&Ages{}).Plus(&g, one), one.Plus(&g, two), two.Plus(&g, one)} {
		require.Equal(t, one.Early, a.Early)
		require.Equal(t, g.seen(day), a.seen(&g, &early, lately+40*day))
		require.Equal(t, g.Bins(), a.seen(&g, &late, lately+40*day))
	}
}
