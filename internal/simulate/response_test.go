package simulate

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSharesOfResponses(t *testing.T) {
	p := population(t, func(c *Config) {
		c.Unselected, c.Missing, c.Late, c.Duplicates, c.Orphans = 0.1, 0.2, 0.05, 0.3, 0.15
	})
	c := p.Config()
	const seed, n = 8, 30_000
	rng := rand.New(rand.NewPCG(seed, 0))
	var unselected, missing, late, inTime, duplicates, orphans, early int
	for k := range n {
		im := p.Impression(k)
		order := rng.Perm(c.Candidates)
		r := p.Respond(im, order)
		require.Equal(t, slowSelect(im.Candidates, order, im.Window), r.Selected)
		if orphan, ok := p.Orphan(k); ok {
			orphans++
			_, known := ImpressionNumber(orphan.ImpressionID)
			require.False(t, known)
			require.Equal(t, im.Time, orphan.Time)
		}
		if r.Selection == nil {
			unselected++
			require.Empty(t, r.Payoffs)
			continue
		}
		chosen := im.Candidates[r.Selected]
		require.Equal(t, Selection{im.ID, chosen.Item, chosen.Utility, r.Selection.Time}, *r.Selection)
		require.GreaterOrEqual(t, r.Selection.Time, im.Time+1000)
		require.LessOrEqual(t, r.Selection.Time, im.Time+c.SelectionDelay.Milliseconds())
		horizon := im.Time + c.Horizon.Milliseconds()
		switch {
		case len(r.Payoffs) == 0:
			missing++
			continue
		case r.Payoffs[0].Time > horizon:
			late++
			require.Len(t, r.Payoffs, 1)
		default:
			inTime++
			delay := time.Duration(r.Payoffs[0].Time-r.Selection.Time) * time.Millisecond
			require.True(t, delay >= c.MinDelay && delay <= c.MaxDelay, "%v", delay)
			// The median of 5 minutes .. 14 days on a logarithmic scale is their geometric mean, 5.29 hours.
			if delay.Hours()*delay.Hours() < c.MinDelay.Hours()*c.MaxDelay.Hours() {
				early++
			}
		}
		if len(r.Payoffs) == 2 {
			duplicates++
			again := r.Payoffs[1]
			require.True(t, again.Time >= r.Payoffs[0].Time && again.Time <= horizon)
			again.Time = r.Payoffs[0].Time
			require.Equal(t, r.Payoffs[0], again, "the same event")
		}
		require.Equal(t, im.Payoffs[r.Selected], r.Payoffs[0].Value)
		require.Equal(t, chosen.Item, r.Payoffs[0].Item)
	}
	near(t, "unselected", unselected, n, 0.1)
	near(t, "missing", missing, n, 0.2)
	near(t, "late", late, n, 0.05)
	near(t, "duplicates", duplicates, inTime, 0.3)
	near(t, "orphans", orphans, n, 0.15)
	near(t, "early half", early, inTime, 0.5)
}

// TestTimesDoNotDependOnTheRanking: two rankers that serve the same users differ in selections only.
func TestTimesDoNotDependOnTheRanking(t *testing.T) {
	p := population(t, nil)
	const seed = 9
	rng := rand.New(rand.NewPCG(seed, 0))
	times := func(r Response) (at []int64) {
		if r.Selection != nil {
			at = append(at, r.Selection.Time)
		}
		for _, payoff := range r.Payoffs {
			at = append(at, payoff.Time)
		}
		return at
	}
	for k := range 500 {
		im := p.Impression(k)
		a := p.Respond(im, rng.Perm(p.Config().Candidates))
		b := p.Respond(im, rng.Perm(p.Config().Candidates))
		require.Equal(t, times(a), times(b))
	}
}

func TestRankingHasToBeAPermutation(t *testing.T) {
	p := population(t, func(c *Config) { c.Items, c.Candidates = 4, 3 })
	im := p.Impression(0)
	a, b, c := im.Candidates[0].Item, im.Candidates[1].Item, im.Candidates[2].Item
	ranking := func(items []string) (bytes [][]byte) {
		for _, item := range items {
			bytes = append(bytes, []byte(item))
		}
		return bytes
	}
	order, err := OrderOf(im.Candidates, ranking([]string{c, a, b}))
	require.NoError(t, err)
	require.Equal(t, []int{2, 0, 1}, order)
	for _, items := range [][]string{{a, b}, {a, b, b}, {a, b, "stranger"}, {a, b, c, a}, nil} {
		_, err := OrderOf(im.Candidates, ranking(items))
		require.Error(t, err, "%v", items)
	}
}
