package lab

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
)

const (
	newsLife = 360 // impressions
	newsHalf = 120
)

// news are items that replace each other at regular intervals. A mean begins uniform on [0.15, 0.4], and halves every newsHalf.
type news struct {
	every int64 // impressions between replacements
	names []policy.Item
	bases []float64
}

// newsEvery returns the number of impressions between replacements, of so many items at a time.
func newsEvery(items int) int64 { return max(1, newsLife/int64(items)) }

// newsAll returns the number of items over so many impressions.
func newsAll(items int, impressions int64) int64 { return int64(items) + impressions/newsEvery(items) }

// drawNews draws the items. Their numbers are the utility order.
func drawNews(w *World, items int, r *rand.Rand) [][]float64 {
	all := int(newsAll(items, w.horizon))
	w.news = &news{every: newsEvery(items)}
	for _, name := range r.Perm(all) {
		w.news.names, w.news.bases = append(w.news.names, policy.Item(name)), append(w.news.bases, 0.15+0.25*r.Float64())
	}
	return [][]float64{make([]float64, all)}
}

// next sets the candidates of the present impression and their means. The first items began before the first impression.
func (x *news) next(w *World) {
	first := w.t / x.every
	w.candidates = w.candidates[:0]
	for k := first; k < first+int64(w.n); k++ {
		began := (k - int64(w.n) + 1) * x.every
		i := x.names[k]
		w.now[i] = x.bases[k] * math.Exp2(-float64(w.t-began)/newsHalf)
		w.candidates = append(w.candidates, i)
	}
	slices.Sort(w.candidates)
}
