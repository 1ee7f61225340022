package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

// decided is a ranking record as any program would read it, without this project's code.
type decided struct {
	ID       string   `json:"impression_id"`
	Items    []string `json:"items"`
	Decision struct {
		Policy, Delay string
		Offset        int64
		Propensities  []float64
		Expected      []float64
		Instance      *int
		Seed          string
		Began         time.Time
	} `json:"decision"`
}

// shelf is one partition of the independent recomputation: BOLD with two instances over FTRL, c = 1, written down plainly.
type shelf struct {
	losses      [2]map[string]float64
	rounds      [2]int
	outstanding [2]int
}

// take is the instance for the next impression: the lowest-numbered that waits for nothing, else that with the fewest
// outstanding.
func (s *shelf) take() int {
	i := 0
	if s.outstanding[1] < s.outstanding[0] {
		i = 1
	}
	s.outstanding[i]++
	return i
}

// propensities are by position in items, which are in increasing utility.
func (s *shelf) propensities(i int, items []string, q []float64) []float64 {
	g := make([]float64, len(items))
	for k, item := range items {
		g[k] = s.losses[i][item]
	}
	rates := make([]float64, len(items))
	for k := range rates {
		g[k], rates[k] = -g[k], math.Sqrt(float64(s.rounds[i]+1))
	}
	return slowest(g, q, rates)
}

// slowest is argmax ⟨s,p⟩ + 2·Σ r_i·√p_i over p_1+…+p_k ≤ q_1+…+q_k. It tries every set of prefixes that might be tight, and solves each
// block between two of them by bisection for its multiplier. The result is the best of the solutions that keep all prefixes.
func slowest(s, q, rates []float64) []float64 {
	n := len(s)
	var best []float64
	most := math.Inf(-1)
	for tight := range 1 << (n - 1) {
		p := make([]float64, n)
		for from := 0; from < n; {
			to := from + 1
			mass := q[from]
			for to < n && tight>>(to-1)&1 == 0 {
				mass += q[to]
				to++
			}
			block(p[from:to], s[from:to], rates[from:to], mass)
			from = to
		}
		value, sumP, sumQ, ok := 0.0, 0.0, 0.0, true
		for k := range p {
			sumP += p[k]
			sumQ += q[k]
			ok = ok && sumP <= sumQ+1e-12
			value += s[k]*p[k] + 2*rates[k]*math.Sqrt(p[k])
		}
		if ok && value > most {
			most, best = value, p
		}
	}
	return best
}

// block solves for p_k = (r_k/(lambda − s_k))² with the sum mass.
func block(p, s, rates []float64, mass float64) {
	highest := slices.Max(s)
	low, high := 0.0, slices.Max(rates)/math.Sqrt(mass/float64(len(p)))
	for range 200 {
		mid := (low + high) / 2 // how far lambda is above all s
		sum := 0.0
		for k := range p {
			x := rates[k] / (highest - s[k] + mid)
			p[k] = x * x
			sum += p[k]
		}
		if sum > mass {
			low = mid
		} else {
			high = mid
		}
	}
}

// TestPipeline_AdversarialPropensitiesAreRecomputed: an adversarial learner ranks, waits, is fed and learns, through a
// restart in the middle; and whoever has the log alone comes to the same propensities, instances and sums.
func TestPipeline_AdversarialPropensitiesAreRecomputed(t *testing.T) {
	t.Parallel()
	testenv.One(t, func(t *testing.T, env testenv.Env) {
		s := plain(env, `policy: ftrl
    max_instances: 2
    windows: {geometric: 0.6, max: 8}`)
		s.payoffs = "adversarial"
		const partitions, rounds, each = 2, 12, 7
		w := makeWorld(t, partitions, s, s, func(string) (string, bool) { return "", false })
		q := make([]float64, 5) // folded: whoever looks at more than five sees them all
		total := 0.0
		for k := range 8 {
			total += math.Pow(0.6, float64(k))
		}
		for k := range 8 {
			q[min(k, 4)] += math.Pow(0.6, float64(k)) / total
		}
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 1))
		var shelves [partitions]shelf
		for p := range shelves {
			shelves[p].losses = [2]map[string]float64{{}, {}}
		}
		seen := [partitions]int{}
		run := w.start(t)
		for round := range rounds {
			if round == rounds/2 {
				run.stop(t)
				run = w.start(t)
			}
			utilities := map[string]map[string]float64{}
			var batch []kafka.Message
			for k := range each {
				id := fmt.Sprintf("i-%d-%d", round, k)
				utilities[id] = map[string]float64{}
				var candidates []map[string]any
				for _, item := range []string{"a", "b", "c", "d", "e"} {
					u := rng.Float64()
					utilities[id][item] = u
					candidates = append(candidates, map[string]any{"item": item, "utility": u})
				}
				value, err := json.Marshal(map[string]any{"impression_id": id, "candidates": candidates})
				require.NoError(t, err)
				batch = append(batch, kafka.Message{Topic: w.cfg.Kafka.Topics.Impressions, Key: []byte(id), Value: value})
			}
			w.publish(t, batch...)
			require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] == int64((round+1)*each) }, deadline, 20*time.Millisecond)

			// Decisions, compared with this test's own computation.
			var answers []kafka.Message
			type fed struct {
				partition, instance int
				item                string
				loss                float64
			}
			var due []fed
			for p := range partitions {
				records := w.rankings(t, p)
				for _, m := range records[seen[p]:] {
					var d decided
					require.NoError(t, json.Unmarshal(m.Value, &d))
					require.Equal(t, "ftrl", d.Decision.Policy)
					require.Equal(t, "bold", d.Decision.Delay)
					order := slices.Clone(d.Items)
					slices.SortFunc(order, func(x, y string) int {
						if utilities[d.ID][x] < utilities[d.ID][y] {
							return -1
						}
						return 1
					})
					i := shelves[p].take()
					require.NotNil(t, d.Decision.Instance)
					require.Equal(t, i, *d.Decision.Instance, d.ID)
					want := shelves[p].propensities(i, order, q)
					sum := 0.0
					for k, item := range d.Items {
						require.InDelta(t, want[slices.Index(order, item)], d.Decision.Propensities[k], 1e-9, "%s: item %s", d.ID, item)
						sum += d.Decision.Propensities[k]
					}
					require.InDelta(t, 1, sum, 1e-12)
					// A user with a window of two, whose payoffs change in the middle.
					at := 0
					if utilities[d.ID][d.Items[1]] > utilities[d.ID][d.Items[0]] {
						at = 1
					}
					item := d.Items[at]
					payoff := float64(item[0]-'a') / 4
					if round >= rounds/2 {
						payoff = 1 - payoff
					}
					due = append(due, fed{p, i, item, (1 - payoff) / d.Decision.Propensities[at]})
					answers = append(answers,
						kafka.Message{Topic: w.cfg.Kafka.Topics.Selections, Key: []byte(d.ID), Value: fmt.Appendf(nil, `{"impression_id":%q,"item":%q}`, d.ID, item)},
						kafka.Message{Topic: w.cfg.Kafka.Topics.Payoffs, Key: []byte(d.ID), Value: fmt.Appendf(nil, `{"impression_id":%q,"payoff":%g}`, d.ID, payoff)})
				}
				seen[p] = len(records)
			}
			require.Len(t, due, each)
			w.publish(t, answers...)
			require.Eventually(t, func() bool { return w.counts(t)["payoffs.applied"] == int64((round+1)*each) }, deadline, 20*time.Millisecond)
			for _, f := range due {
				s := &shelves[f.partition]
				s.losses[f.instance][f.item] += f.loss
				s.rounds[f.instance]++
				s.outstanding[f.instance]--
			}
		}
		run.stop(t)
		w.ranked(t, rounds*each)
		for p := range partitions {
			stored, err := w.redis.HGetAll(t.Context(), fmt.Sprintf("{%s:%d}:feed:rounds", w.group, p)).Result()
			require.NoError(t, err)
			for i, n := range shelves[p].rounds {
				if n > 0 {
					require.Equal(t, fmt.Sprint(n), stored[fmt.Sprint(i)], "rounds of instance %d", i)
				}
			}
			waiting, err := w.redis.HLen(t.Context(), fmt.Sprintf("{%s:%d}:feed:instances", w.group, p)).Result()
			require.NoError(t, err)
			require.Zero(t, waiting, "nothing is outstanding")
		}
	})
}
