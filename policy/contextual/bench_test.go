package contextual

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/ranker-worker/ranker-worker/policy/features"
)

// BenchmarkModel_Learn measures the estimate of variances, made when payoffs have grown by an eighth, by number of paid items.
func BenchmarkModel_Learn(b *testing.B) {
	d := features.Declaration{}
	for k := range 15 {
		d.Item = append(d.Item, features.Feature{Name: fmt.Sprint(k), Low: -1, High: 1})
	}
	s, err := features.New(d)
	if err != nil {
		b.Fatal(err)
	}
	for _, items := range []int{1000, 10_000, 100_000} {
		m := newModel(b, s, 1)
		w := newWorld(m, items)
		rng := rand.New(rand.NewPCG(1, uint64(items)))
		for i := range int32(items) {
			for range 2 {
				w.pay(i, randomX(rng, s), rng.Int64N(Units))
			}
		}
		b.Run(fmt.Sprintf("items=%d", items), func(b *testing.B) {
			for b.Loop() {
				m.learn()
			}
		})
	}
}
