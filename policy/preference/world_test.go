package preference

import (
	"math"
	"math/rand/v2"
	"sort"

	"github.com/ranker-worker/ranker-worker/policy"
)

// geometric are the prefix sums of windows with P(w) ∝ ratio^(w-1), w ≤ n.
func geometric(ratio float64, n int) []float64 {
	upTo, sum := make([]float64, n), 0.0
	for w := range upTo {
		sum += math.Pow(ratio, float64(w))
		upTo[w] = sum
	}
	for w := range upTo {
		upTo[w] /= sum
	}
	return upTo
}

// users are deterministic, unless err is above 0: then each comparison that they make goes wrong with that probability.
type users struct {
	rank []int // by item, as they like it
	upTo []float64
	err  float64
	rng  *rand.Rand
}

func newUsers(n int, ratio float64, seed uint64) *users {
	rng := rand.New(rand.NewPCG(seed, 1))
	return &users{rank: rng.Perm(n), upTo: geometric(ratio, n), rng: rng}
}

// sees is the position of a user's selection from the items shown.
func (u *users) selects(shown []policy.Item) int {
	window := min(sort.SearchFloat64s(u.upTo, u.rng.Float64())+1, len(shown))
	at := 0
	for k := 1; k < window; k++ {
		prefers := u.rank[shown[k]] > u.rank[shown[at]]
		if u.err > 0 && u.rng.Float64() < u.err {
			prefers = !prefers
		}
		if prefers {
			at = k
		}
	}
	return at
}

// session decides impressions with one Finder, as a learner would.
type session struct {
	finder    Finder
	order     []int32
	undecided []int32
	items     []policy.Item
	shown     []int32
	list      []policy.Item
	t         uint64
	key       policy.Key
}

// decide finds the order of the candidates, and the ranking shown where it is not certain; certain is whether it is.
func (s *session) decide(candidates []policy.Item) (certain bool) {
	n := len(candidates)
	s.t++
	key := policy.DecisionKey(uint64(s.key), 0, "", 0, int64(s.t))
	s.order = append(s.order[:0], make([]int32, n)...)
	s.undecided = s.finder.Sort(candidates, key, s.order, s.undecided[:0])
	s.items = s.items[:0]
	for _, at := range s.order {
		s.items = append(s.items, candidates[at])
	}
	if !Explores(s.undecided) {
		return true
	}
	s.shown = append(s.shown[:0], make([]int32, n)...)
	s.finder.Explore(s.items, s.undecided, key, s.shown)
	s.list = s.list[:0]
	for _, r := range s.shown {
		s.list = append(s.list, s.items[r])
	}
	return false
}

// feed gives the finder the selection.
func (s *session) feed(at int) {
	s.finder.Selected(&Selection{Items: s.items, Order: s.shown, Undecided: s.undecided, At: at})
}

// burnIn is the number of impressions of all items until their order is certain; limit+1 where limit was not enough.
func burnIn(f Finder, u *users, seed uint64, limit int) int {
	n := len(u.rank)
	f.Grow(n)
	candidates := make([]policy.Item, n)
	for i := range candidates {
		candidates[i] = policy.Item(i)
	}
	s := &session{finder: f, key: policy.Key(seed)}
	for t := 0; t <= limit; t++ {
		if s.decide(candidates) {
			return t
		}
		s.feed(u.selects(s.list))
	}
	return limit + 1
}
