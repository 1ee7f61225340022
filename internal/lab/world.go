package lab

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/admissible"
)

// world is one run of a scenario: impressions one after the other, t = 1..horizon. All that is random in it comes from
// the run's streams and none of it from what a policy does.
type world struct {
	scenario Scenario
	n        int // candidates per impression
	horizon  int64
	t        int64 // the impression at hand

	candidates []policy.Item // of the impression at hand, in increasing utility
	window     int           // of its user
	luck       float64       // of its payoff: standard normal or uniform on [0,1)

	means   [][]float64 // by level, then by item, or by rank for Ranks
	centres []float64   // Catalog: of the payoffs before they are clipped
	periods []period
	at      int       // the period at hand
	now     []float64 // the means of the level at hand
	counts  []int64   // impressions by level
	best    []float64 // of fixed orders that regret is not against: by window, the best mean

	q       []float64 // the distribution of windows
	upTo    []float64 // its prefix sums
	windows *stream
	payoffs *rand.Rand
	uniform *stream
	shuffle *stream
}

func newWorld(s Scenario, items int, horizon int64, seed uint64, run int) (*world, error) {
	w := &world{
		scenario: s, n: s.Candidates(items), horizon: horizon,
		windows: newStream(seed, run, forWindows), uniform: newStream(seed, run, forPayoffs),
		shuffle: newStream(seed, run, forCandidates),
	}
	w.payoffs = rand.New(w.uniform)
	if s == Catalog {
		w.drawCatalog(items, rand.New(newStream(seed, run, forItems)))
	} else {
		w.means, w.periods = s.levels(items, horizon)
	}
	w.counts = make([]int64, len(w.means))
	if s != Blocks {
		windows, err := admissible.Geometric(s.Ratio(), w.n)
		if err != nil {
			return nil, fmt.Errorf("windows of scenario %s: %w", s, err)
		}
		w.q = windows.Fold(make([]float64, w.n))
		w.upTo = admissible.Prefix(w.q, make([]float64, w.n))
	}
	if s == Catalog {
		w.candidates = make([]policy.Item, w.n)
	} else {
		w.candidates = make([]policy.Item, items)
		for i := range w.candidates {
			w.candidates[i] = policy.Item(i)
		}
	}
	if s.fixedOrder() && !s.AgainstFixed() {
		w.best = make([]float64, w.n)
		for k := range w.best {
			w.best[k] = policy.BestMean(w.means[0], k+1)
		}
	}
	w.now = w.means[w.periods[0].level]
	return w, nil
}

const (
	catalogMean  = 0.75
	catalogSD    = 0.08
	catalogNoise = 0.23
)

// drawCatalog draws the items. Their numbers are their utility order: since all are drawn alike, that is a random one.
func (w *world) drawCatalog(items int, draws *rand.Rand) {
	w.centres = make([]float64, items)
	means := make([]float64, items)
	for i := range means {
		w.centres[i] = min(max(catalogMean+catalogSD*draws.NormFloat64(), 0), 1)
		means[i] = clippedMean(w.centres[i], catalogNoise)
	}
	w.means, w.periods = [][]float64{means}, []period{{1, 0}}
}

// clippedMean is the mean of a normal variable clipped to [0,1].
func clippedMean(mean, sd float64) float64 {
	cdf := func(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }
	pdf := func(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }
	low, high := (0-mean)/sd, (1-mean)/sd
	return mean*(cdf(high)-cdf(low)) + sd*(pdf(low)-pdf(high)) + 1 - cdf(high)
}

// next goes to the next impression.
func (w *world) next() {
	w.t++
	if w.at+1 < len(w.periods) && w.periods[w.at+1].from == w.t {
		w.at++
		w.now = w.means[w.periods[w.at].level]
	}
	w.counts[w.periods[w.at].level]++
	w.window = w.drawWindow()
	if w.scenario.Gaussian() || w.scenario == Catalog {
		w.luck = w.payoffs.NormFloat64()
	} else {
		w.luck = w.uniform.float64()
	}
	switch w.scenario {
	case Changing, Ranks:
		for k := w.n - 1; k > 0; k-- {
			j := w.shuffle.below(k + 1)
			w.candidates[k], w.candidates[j] = w.candidates[j], w.candidates[k]
		}
	case Catalog:
		w.drawCandidates()
	}
}

func (w *world) drawWindow() int {
	if w.q == nil {
		return 1 + int((w.t-1)*int64(w.n)/w.horizon)
	}
	u := w.windows.float64()
	if w.scenario == Mixed {
		return 1 + int(u*float64(w.n))
	}
	// Short windows are the likely ones.
	k := 0
	for u >= w.upTo[k] { // the last is 1
		k++
	}
	return k + 1
}

// drawCandidates draws different items (R. Floyd's algorithm: J. Bentley, "Programming pearls: A sample of brilliance",
// CACM 1987) and puts them in the order of their utilities.
func (w *world) drawCandidates() {
	c := w.candidates[:0]
	for top := len(w.means[0]) - w.n; top < len(w.means[0]); top++ {
		x := policy.Item(w.shuffle.below(top + 1))
		if slices.Contains(c, x) {
			x = policy.Item(top)
		}
		c = append(c, x)
	}
	slices.Sort(c)
}

// mean is the mean payoff of the candidate at a position.
func (w *world) mean(position int32) float64 {
	if w.scenario == Ranks {
		return w.now[position]
	}
	return w.now[w.candidates[position]]
}

// payoff is what the user's selection pays. The luck is the same whatever is selected.
func (w *world) payoff(position int32) float64 {
	switch {
	case w.scenario.Gaussian():
		return w.mean(position) + w.luck
	case w.scenario == Catalog:
		return min(max(w.centres[w.candidates[position]]+catalogNoise*w.luck, 0), 1)
	case w.luck < w.mean(position):
		return 1
	}
	return 0
}

// bestMean is the mean that the best ranking of the impression at hand brings for its window.
func (w *world) bestMean() float64 {
	if w.best != nil {
		return w.best[w.window-1]
	}
	best := math.Inf(-1)
	for _, item := range w.candidates[w.window-1:] {
		best = max(best, w.now[item])
	}
	return best
}

// bestFixed is Σ_w q_w·max_{i≥w} L_i, what the best fixed ranking would have brought in the mean until now. It writes to
// scratch, which has room for n numbers.
func (w *world) bestFixed(scratch []float64) float64 {
	total := scratch[:w.n]
	clear(total)
	for level, count := range w.counts {
		for i, mean := range w.means[level] {
			total[i] += float64(count) * mean
		}
	}
	return admissible.Best(total, w.q)
}
