package lab

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
)

// News has 20 items live at a time (--items), an impression a minute for 30 days. Each is live for six hours with a mean that
// begins uniform on [0.15, 0.4] and halves every two hours; one is replaced at regular intervals. Payoffs are 0 or 1, 30 minutes
// late by default; the order of utilities is random.
const News Scenario = "news"

const (
	newsItems = 20
	newsDays  = 30
	newsLate  = 30 * time.Minute
	newsLife  = 360 // impressions
	newsHalf  = 120
)

// newsEvery returns the number of impressions between replacements.
func newsEvery(items int) int64 { return max(1, newsLife/int64(items)) }

type news struct {
	every int64
	names []policy.Item
	bases []float64
}

// newNews draws them. Their numbers are the utility order.
func newNews(e *Experiment, draws *stream) *news {
	r := rand.New(draws)
	x := &news{every: newsEvery(e.Items)}
	for _, name := range r.Perm(int(e.every())) {
		x.names, x.bases = append(x.names, policy.Item(name)), append(x.bases, 0.15+0.25*r.Float64())
	}
	return x
}

// newsAll returns the number of items over so many impressions.
func newsAll(items int, impressions int64) int64 { return int64(items) + impressions/newsEvery(items) }

// next goes to the present impression. The first items began before the first impression.
func (x *news) next(w *world) {
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

func (p *player) meet() {
	l := p.learner
	if all, several := l.(*partitions); several {
		l = all.of(all.decided + 1)
	}
	if to, ok := l.(delay.Meeting); ok {
		to.Meet(p.world.candidates, p.world.clock.at(p.world.t))
	}
}
