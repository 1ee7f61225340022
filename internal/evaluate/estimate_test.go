package evaluate

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/policy/confidence"
)

// drawn is a random distribution; some are impossible where holes is set.
func drawn(rng *rand.Rand, n int, holes bool) []float64 {
	p, sum := make([]float64, n), 0.0
	for a := range p {
		if p[a] = rng.ExpFloat64(); holes && a > 0 && rng.IntN(3) == 0 {
			p[a] = 0
		}
		sum += p[a]
	}
	for a := range p {
		p[a] /= sum
	}
	return p
}

func draw(rng *rand.Rand, p []float64) int {
	x := rng.Float64()
	for a := range p {
		if x -= p[a]; x < 0 {
			return a
		}
	}
	return 0
}

// TestEstimator_Oracle compares the sums, added up row by row, with the definitions over all rows at once.
func TestEstimator_Oracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		n, rows := 2+rng.IntN(5), 200
		clip := math.Inf(1)
		if rng.IntN(2) == 0 {
			clip = 1.5
		}
		type one struct {
			row
			pi []float64
		}
		var all []one
		var model means
		items := make([]int32, n)
		for a := range items {
			items[a] = int32(a)
		}
		e := newEstimator(clip)
		sums, counts := make([]float64, n), make([]float64, n)
		for range rows {
			p, pi := drawn(rng, n, true), drawn(rng, n, true)
			y, r := draw(rng, p), rng.Float64()
			x := one{row{selected: y, payoff: r, p: p[y], logged: p}, pi}
			model.predict(&x.row, items)
			var sum, count float64
			for a := range items {
				sum, count = sum+sums[a], count+counts[a]
			}
			mean := r
			if require.Equal(t, len(all) == 0, x.guessed); !x.guessed {
				mean = sum / count
			}
			for a := range items {
				require.InDelta(t, (sums[a]+10*mean)/(counts[a]+10), x.model[a], 1e-12)
			}
			all = append(all, x)
			sums[y], counts[y] = sums[y]+r, counts[y]+1
			model.paid(int32(y), r)
			e.add(&x.row, pi)
		}
		T := float64(rows)
		var ips, w1, w2, dr, unsupported, below, above, mean float64
		least := slices.MinFunc(all, func(a, b one) int { return cmp.Compare(a.payoff, b.payoff) }).payoff
		for _, x := range all {
			w := math.Min(x.pi[x.selected]/x.p, clip)
			ips, w1, w2, mean = ips+w*x.payoff/T, w1+w, w2+w*w, mean+x.payoff/T
			for a := range items {
				dr += x.pi[a] * x.model[a] / T
				if x.logged[a] == 0 {
					unsupported += x.pi[a] / T
					below += x.pi[a] * (x.model[a] - least) / T
					above += x.pi[a] * (slices.Max(x.model) - x.model[a]) / T
				}
			}
			dr += w * (x.payoff - x.model[x.selected]) / T
		}
		var vIPS, vSNIPS, vDR float64
		for _, x := range all {
			w := math.Min(x.pi[x.selected]/x.p, clip)
			d := w * (x.payoff - x.model[x.selected])
			for a := range items {
				d += x.pi[a] * x.model[a]
			}
			vIPS += math.Pow(w*x.payoff-ips, 2) / T
			vDR += math.Pow(d-dr, 2) / T
			vSNIPS += math.Pow(w*(x.payoff-ips*T/w1), 2)
		}
		got := e.report("x", config.Range{Min: 0, Max: 1}, nil, 0)
		require.InDelta(t, ips, got.IPS.Value, 1e-9)
		require.InDelta(t, ips*T/w1, got.SNIPS.Value, 1e-9)
		require.InDelta(t, dr, got.DR.Value, 1e-9)
		require.InDelta(t, dr-mean, got.Difference.Value, 1e-9)
		require.InDelta(t, math.Sqrt(vIPS/T), got.IPS.Stderr, 1e-9)
		require.InDelta(t, math.Sqrt(vDR/T), got.DR.Stderr, 1e-9)
		require.InDelta(t, math.Sqrt(vSNIPS)/w1, got.SNIPS.Stderr, 1e-9)
		require.InDelta(t, w1*w1/w2, got.EffectiveSamples, 1e-6)
		require.InDelta(t, unsupported, *got.Unsupported, 1e-9)
		require.InDelta(t, below, e.below(&e.sums), 1e-9)
		require.InDelta(t, above*T, e.above, 1e-9)
		if got.DR.Lower != nil {
			require.InDelta(t, dr-1.96*got.DR.Stderr-below, *got.DR.Lower, 1e-9)
			require.InDelta(t, dr-mean+1.96*got.Difference.Stderr+above, *got.Difference.Upper, 1e-9)
		}

		// The sequence, by its definition.
		side := func(lack bool) (best float64) {
			for _, s := range scales {
				var sum, before, v float64
				for i, x := range all {
					pay, q := x.payoff, func(a int) float64 { return x.model[a] }
					if lack {
						pay, q = 1-pay, func(a int) float64 { return 1 - x.model[a] }
					}
					w, k := x.pi[x.selected]/x.p, 0.0
					phi := func(most float64) float64 {
						g := func(a int) float64 {
							if x.guessed || slices.Equal(x.pi, x.logged) || x.pi[a] == 0 || x.logged[a] == 0 {
								return 0
							}
							return math.Min(q(a), most*x.logged[a]/x.pi[a])
						}
						phi := w * (pay - g(x.selected))
						for a := range items {
							phi += x.pi[a] * g(a)
							if g(a) > 0 {
								k = math.Max(k, x.pi[a]*g(a)/x.logged[a])
							}
						}
						require.GreaterOrEqual(t, phi, -k-1e-9)
						return phi
					}
					predicted := math.Max(0, math.Min(1, before/math.Max(1, float64(i))))
					bounded := phi(1)
					kBounded := math.Min(k, 1) // rounding
					free := phi(math.Inf(1))
					before += bounded
					term := free
					if predicted+k > s.c {
						term = bounded
					}
					if predicted+kBounded > s.c {
						continue
					}
					sum += term
					v += (term - predicted) * (term - predicted)
				}
				best = math.Max(best, (sum-confidence.New(alpha*s.part, s.c, s.v).Bound(v))/T)
			}
			return best
		}
		require.InDelta(t, side(false), got.Sequence.Lower, 1e-9)
		require.InDelta(t, 1-side(true), got.Sequence.Upper, 1e-9)
	})
}

func BenchmarkEstimator(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	p, pi := drawn(rng, 20, false), drawn(rng, 20, false)
	x := row{selected: 3, payoff: 0.5, p: p[3], logged: p, model: p}
	e := newEstimator(math.Inf(1))
	b.ReportAllocs()
	for b.Loop() {
		e.add(&x, pi)
	}
}
