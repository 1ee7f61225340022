package history

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/delay/inflight"
	"github.com/ranker-worker/ranker-worker/policy/words"
)

const day = 86_400_000 // ms

// payment is a payoff of a selection that began at a time.
type payment struct {
	began  int64
	payoff float64
}

// grouped counts payoffs by the blocks of a tick.
func grouped(g *inflight.Scheme, payments []payment, tick int64) Rows[Payoffs] {
	sums := map[inflight.Bucket]Payoffs{}
	for _, p := range payments {
		b := g.BucketOf(p.began, tick)
		x := sums[b]
		sums[b] = Payoffs{x.N + 1, x.R + int64(math.Round(p.payoff*(1<<30))), x.Q + int64(math.Round(p.payoff*p.payoff*(1<<30)))}
	}
	var rows Rows[Payoffs]
	for b, x := range sums {
		rows = append(rows, Row[Payoffs]{b, x})
	}
	slices.SortFunc(rows, func(a, b Row[Payoffs]) int { return a.Compare(b.Bucket) })
	return rows
}

func payments(t *rapid.T, g *inflight.Scheme, now int64) payment {
	ago := rapid.OneOf(rapid.Int64Range(-5*g.Unit(), 20*g.Unit()), rapid.Int64Range(0, 2*g.Horizon())).Draw(t, "ago")
	return payment{now - ago, rapid.OneOf(rapid.Float64Range(0, 1), rapid.Float64Range(-3, 3)).Draw(t, "payoff")}
}

// Whatever is paid, in whatever order, and however blocks merge: rows are the payoffs that came, counted by the blocks of the tick.
func TestRows_ArePayoffsByBlock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := inflight.NewScheme(rapid.Int64Range(1, 400*day).Draw(t, "horizon"))
		now := rapid.SampledFrom([]int64{-62_135_596_800_000, 0, 1_784_000_000_000}).Draw(t, "now")
		tick, rows, all := g.Tick(now), Rows[Payoffs](nil), []payment(nil)
		pay := func(t *rapid.T) {
			p := payments(t, &g, now)
			rows.Count(&g, p.began, tick, PayoffsOf(p.payoff))
			all = append(all, p)
		}
		t.Repeat(map[string]func(*rapid.T){
			"pay": pay, "pay again": pay,
			"pass": func(t *rapid.T) {
				now += rapid.OneOf(rapid.Int64Range(0, 10*g.Unit()), rapid.Int64Range(0, 2*g.Horizon())).Draw(t, "ms")
				tick = g.Tick(now)
				before := slices.Clone(rows)
				changed := rows.Merge(&g, tick)
				require.Equal(t, changed, !slices.Equal(before, rows))
				require.False(t, rows.Merge(&g, tick), "once is enough")
			},
			"": func(t *rapid.T) {
				require.Equal(t, grouped(&g, all, tick), rows)
				if len(rows) > 0 {
					read, err := words.Parse(rows.Append(nil), ' ', ReadRows, errText)
					require.NoError(t, err)
					require.Equal(t, rows, read)
				}
			},
		})
	})
}

// The rows of partitions whose event times differ add up to those of one that had everything, once its event time is the latest.
func TestRows_AddIsTheRowsOfAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := inflight.NewScheme(rapid.Int64Range(1, 40*day).Draw(t, "horizon"))
		var all []payment
		var sum Rows[Payoffs]
		latest := int64(0)
		for range rapid.IntRange(0, 4).Draw(t, "partitions") {
			now := rapid.Int64Range(0, 3*g.Horizon()).Draw(t, "now")
			var own Rows[Payoffs]
			for range rapid.IntRange(0, 10).Draw(t, "payoffs") {
				p := payments(t, &g, now)
				own.Count(&g, p.began, g.Tick(now), PayoffsOf(p.payoff))
				all = append(all, p)
			}
			if latest = max(latest, now); rapid.Bool().Draw(t, "first") {
				sum = own.Add(sum)
			} else {
				sum = sum.Add(own)
			}
		}
		for k := range sum[min(1, len(sum)):] {
			require.LessOrEqual(t, sum[k].End(), sum[k+1].Start())
		}
		require.Equal(t, grouped(&g, all, 0).Total(), sum.Total())
		later := latest + 1000*g.Horizon() + 1<<46
		merged := slices.Clone(sum)
		merged.Merge(&g, g.Tick(later))
		require.Equal(t, grouped(&g, all, g.Tick(later)), merged)
	})
}

func TestRows_ForgetHalfRatherThanOverflow(t *testing.T) {
	g := inflight.NewScheme(day)
	b := g.BucketOf(0, 0)
	most := Rows[Payoffs]{{b, Payoffs{Full, Most, Most}}}
	rows := slices.Clone(most)
	rows.Count(&g, 0, 0, PayoffsOf(1))
	require.Equal(t, Rows[Payoffs]{{b, Payoffs{Full / 2, (Most + Units) / 2, (Most + Units) / 2}}}, rows)
	require.Equal(t, most, most.Add(most))
}

var errText = errors.New("faulty")

func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "10:0:1:0:0", "10:0:1:5:3 10:1:2:-1:1", "12:-3:7:1:1 10:5:1:1:1", "10:1:1:1:1 10:0:1:1:1",
		"-1:0:1:1:1", "10:0:0:0:0", "10:0:1:1", "10:00:1:1:1", "63:0:1:1:1", "10:0:2147483648:2305843009213693952:0", "10", "10:0", "10:0:", "10:0:1:1:1:1:1"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		rows, err := words.Parse(text, ' ', ReadRows, errText)
		if err != nil {
			require.ErrorIs(t, err, errText)
			return
		}
		require.Equal(t, string(text), string(rows.Append(nil)))
		sum := rows.Add(rows)
		require.Len(t, sum, len(rows))
		g := inflight.NewScheme(30 * day)
		for _, tick := range []int64{inflight.Never, 0, g.Tick(1_784_000_000_000)} {
			sum.Merge(&g, tick)
		}
		all := sum.Total()
		require.True(t, all.N > 0 && all.Q >= 0)
	})
}

// Least squares with the covariance of the walk gives the best linear estimate of a mean that follows a random walk. Fade gives the
// same mean, and its worth is the variance of a payoff divided by that of the estimate.
func TestFade_IsLeastSquaresForARandomWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const variance, rate = 0.37, 3e-4 // of a payoff; variances that the walk spreads by per ms
		n := rapid.IntRange(1, 6).Draw(t, "times")
		at, count, mean := make([]int64, n), make([]float64, n), make([]float64, n)
		for k := range n {
			at[k] = rapid.Int64Range(0, 20_000).Draw(t, "at")
			count[k] = rapid.Float64Range(0.1, 50).Draw(t, "payoffs")
			mean[k] = rapid.Float64Range(-1, 1).Draw(t, "mean")
		}
		slices.Sort(at)
		end := at[n-1] + rapid.Int64Range(0, 20_000).Draw(t, "later")
		var f Decay
		c := mat.NewSymDense(n, nil)
		for k := range n {
			f.To(at[k], rate)
			f.Take(count[k], count[k]*mean[k], count[k]*mean[k]*mean[k])
			for j := range k + 1 { // neither has the walk since the later of the two
				missed := rate * variance * float64(end-at[k])
				if j == k {
					missed += variance / count[k]
				}
				c.SetSym(k, j, missed)
			}
		}
		f.To(end, rate)
		var cholesky mat.Cholesky
		require.True(t, cholesky.Factorize(c))
		var weights mat.VecDense
		ones := mat.NewVecDense(n, slices.Repeat([]float64{1}, n))
		require.NoError(t, cholesky.SolveVecTo(&weights, ones))
		precision := mat.Sum(&weights)
		require.InEpsilon(t, precision*variance, f.W, 1e-6)
		require.InDelta(t, mat.Dot(&weights, mat.NewVecDense(n, mean))/precision, f.R/f.W, 1e-6)
		const smallest = 0x1p-1022 // of the normal numbers: squares below it have few digits
		require.GreaterOrEqual(t, f.Q*f.W, f.R*f.R*(1-1e-12)-smallest, "no variance is below 0")
	})
}

// With steady payoffs, the evidence is worth √(λ/ρ) payoffs, λ a unit of time: the memory is 1/√(λ·ρ) long. Without a walk it is
// all of them.
func TestFade_MemoryOfASteadyStream(t *testing.T) {
	const lambda, rho = 0.02, 1e-6 // per ms
	var f, still Decay
	for k := range int64(100_000) {
		f.To(k*50, rho)
		f.Take(1, 1, 1)
		still.To(k*50, 0)
		still.Take(1, 1, 1)
	}
	require.InEpsilon(t, math.Sqrt(lambda/rho), f.W, 0.01)
	require.Equal(t, 100_000.0, still.W)
	f.To(0, rho) // the past changes nothing
	require.InEpsilon(t, math.Sqrt(lambda/rho), f.W, 0.01)
}

func BenchmarkFade(b *testing.B) {
	g := inflight.NewScheme(30 * day)
	rng := rand.New(rand.NewPCG(1, 1))
	var rows Rows[Payoffs]
	now := int64(3 * 365 * day)
	tick := g.Tick(now)
	for range 100_000 {
		rows.Count(&g, rng.Int64N(now), tick, PayoffsOf(rng.Float64()))
	}
	b.ReportMetric(float64(len(rows)), "rows")
	for b.Loop() {
		var f Decay
		for i := range rows {
			f.To(rows[i].Middle(), 1e-9)
			f.Take(float64(rows[i].Sum.N), float64(rows[i].Sum.R), float64(rows[i].Sum.Q))
		}
	}
}

// Where rows are so full that some were halved, nothing can be subtracted: all is summed up again.
func TestRows_ReplaceNoneOfHalvedRows(t *testing.T) {
	rows := func(n int64) Rows[Payoffs] {
		return Rows[Payoffs]{{Bucket: inflight.Bucket{Level: 30, Index: 5}, Sum: Payoffs{N: n, R: n, Q: n}.Bounded()}}
	}
	for _, parts := range [][2]int64{{Full / 2, Full/2 + 2}, {3 * Full, 1}, {1, 3 * Full}, {Full / 8, Full/8 - 2}} {
		old, other, by := rows(parts[0]), rows(parts[1]), rows(parts[0]+1)
		sum, ok := other.Add(old).Replace(old, by)
		require.Equal(t, parts[0] < Full/2 && parts[1] < Full/2, ok)
		if ok {
			require.Equal(t, other.Add(by), sum)
		}
	}
}

// Where a part of a sum is replaced, that is the sum of the parts as they are then.
func TestRows_ReplaceIsTheSumOfWhatIsThen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := inflight.NewScheme(rapid.Int64Range(1, 40*day).Draw(t, "horizon"))
		var parts [3]Rows[Payoffs]
		var now [3]int64
		var sum Rows[Payoffs]
		for range rapid.IntRange(1, 30).Draw(t, "changes") {
			k := rapid.IntRange(0, 2).Draw(t, "part")
			by := slices.Clone(parts[k])
			if rapid.IntRange(0, 9).Draw(t, "lost") == 0 {
				by, now[k] = nil, 0
			}
			now[k] += rapid.Int64Range(0, g.Horizon()).Draw(t, "ms")
			p := payments(t, &g, now[k])
			by.Merge(&g, g.Tick(now[k]))
			by.Count(&g, p.began, g.Tick(now[k]), PayoffsOf(p.payoff))
			replaced, ok := sum.Replace(parts[k], by)
			parts[k] = by
			want := parts[0].Add(parts[1]).Add(parts[2])
			if ok {
				require.Equal(t, want, replaced)
			}
			sum = want
		}
	})
}
