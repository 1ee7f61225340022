package experiment

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// byUser is an experiment whose units are groups of users; buckets last a minute.
func byUser(t testing.TB) *Experiment {
	return feed(t, Settings{ByUser: true, Period: 600_000, Arms: []Arm{{"control", 0.5}, {"feed", 0.5}}})
}

const minute = 60_000

// visits play sessions of impressions of users, each of one group and one moment. A user pays 1 always or never, some minutes later. It
// spreads impressions over partitions.
func visits(e *Experiment, random *rand.Rand, sessions, buckets int, partitions []RunOffs, lift float64) {
	for range sessions {
		group, began := random.IntN(GroupCount), random.Int64N(int64(buckets)*minute)
		arm := e.Arm(AppendUnit(nil, group, PeriodOf(began, e.Period), true))
		pays := group%3 == 0 || arm != e.ControlArm() && random.Float64() < lift
		for range 1 + random.IntN(9) {
			r, _ := partitions[random.IntN(len(partitions))].Of(group)
			r.Enter(arm, began, Unit(1, 0))
			if pays {
				r.Pay(arm, began, began+min(int64(4*minute*random.ExpFloat64()), leastLagHorizon), PaidInParts(0, 1, 0, true))
			}
		}
	}
}

// TestByUser_PartitionsAddUp: impressions of a group are in any partitions. Their totals are those of one partition with all of them, whichever
// partition is added first. Subtracted totals leave no trace.
func TestByUser_PartitionsAddUp(t *testing.T) {
	e := byUser(t)
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		parts := []RunOffs{e.NewRunOffs(600_000), e.NewRunOffs(600_000), e.NewRunOffs(600_000)}
		visits(e, rand.New(rand.NewPCG(seed, 1)), 300, 40, parts, 0.1)
		whole := e.NewRunOffs(600_000)
		replay := rand.New(rand.NewPCG(seed, 1))
		visits(e, replay, 300, 40, []RunOffs{whole, whole, whole}, 0.1)
		whole.EndUpTo(40 * minute)
		want, got := e.NewLagTotals(), e.NewLagTotals()
		want.AddAll(whole)
		for _, k := range []int{2, 0, 1} {
			parts[k].EndUpTo(40 * minute)
			got.AddAll(parts[k])
		}
		require.Equal(t, want, got)
		require.Equal(t, whole.FirstDue(), min(parts[0].FirstDue(), parts[1].FirstDue(), parts[2].FirstDue()))
		for block := range e.Blocks() {
			got.Block(block, 2).Subtract(whole[block])
		}
		require.Equal(t, e.NewLagTotals(), got)
	})
}

// TestByUser_VarianceIsThatOfBlocks: if a block counts a little more, D changes by the block's part in it. The squares of these changes are
// the variance. Payoffs of a user come together, so it is larger than that of independent impressions.
func TestByUser_VarianceIsThatOfBlocks(t *testing.T) {
	const seed, upTo, more = 5, 20, 1e-6
	t.Logf("seed %d", seed)
	e := byUser(t)
	parts := []RunOffs{e.NewRunOffs(600_000)}
	visits(e, rand.New(rand.NewPCG(seed, 1)), 5000, 40, parts, 0)
	parts[0].EndUpTo(40 * minute)
	totals := e.NewLagTotals()
	totals.AddAll(parts[0])
	p := e.pairOf(e.Index("feed"), totals)
	weighed := func(block int, weight float64) (d float64) { // the difference, in which a block has another weight
		for arm, sign := range []float64{-1, 1} {
			for l := range upTo + 1 {
				var x, n float64
				for b := range blocks {
					w := 1.0
					if b == block {
						w = weight
					}
					of := &totals.Block(b, 2)[arm]
					x += w * float64(of.Paid[l].X) / perTotal
					for older := l; older < Lags; older++ {
						n += w * float64(of.Entered[older].N)
					}
				}
				d += sign * x / n
			}
		}
		return d
	}
	want := 0.0
	for b := range blocks {
		slope := (weighed(b, 1+more) - weighed(b, 1-more)) / (2 * more)
		want += slope * slope
	}
	d, v, left := p.difference(upTo)
	require.InDelta(t, weighed(0, 1), d, 1e-9)
	require.InEpsilon(t, want*blocks/(blocks-1), v, 1e-4)
	require.Equal(t, v, left)
	_, independent, _ := p.independent(upTo)
	require.Greater(t, v, 2*independent)
}

// TestByUser_Outlook: a lift of users is found before the first deadlines, and worse from then on. Payoffs so far are compared, and timing is
// not, since the payoffs of a user come together.
func TestByUser_Outlook(t *testing.T) {
	const seed = 7
	t.Logf("seed %d", seed)
	e := byUser(t)
	arm := e.Index("feed")
	h := HistoryOf(e.LagHorizon(600_000), func(age int64) float64 { return -math.Expm1(-float64(age) / (4 * minute)) })
	look := func(sessions, buckets int, lift float64, control string) Outlook {
		of := e
		if control != "control" {
			of = feed(t, Settings{ByUser: true, Period: e.Period, Arms: e.Arms, Control: control})
		}
		parts := []RunOffs{e.NewRunOffs(600_000), e.NewRunOffs(600_000)}
		visits(e, rand.New(rand.NewPCG(seed, 1)), sessions, buckets, parts, lift)
		totals := e.NewLagTotals()
		for _, r := range parts {
			r.EndUpTo(int64(buckets) * minute)
			totals.AddAll(r)
		}
		if control != "control" {
			return of.Outlook(e.ControlArm(), totals, h, "")
		}
		return of.Outlook(arm, totals, h, "")
	}
	o := look(5000, 24, 0.4, "control")
	require.Equal(t, Better, o.End.Verdict, "%+v", o)
	require.Zero(t, o.Due)
	require.Equal(t, []any{"ahead", NoTiming, ""}, []any{o.Ahead(), o.Timing, o.SoFarWhy})
	o = look(5000, 24, 0.4, "feed")
	require.Equal(t, []any{Open, "behind"}, []any{o.End.Verdict, o.Ahead()}, "%+v", o)
	o = look(9000, 40, 0.4, "feed")
	require.Equal(t, Worse, o.End.Verdict, "%+v", o)
	o = look(40, 24, 0.4, "control")
	require.Contains(t, o.End.Why, "too few")
	require.Equal(t, Interval{Lower: -1, Upper: 1}, o.SoFar)
}
