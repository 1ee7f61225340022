package evaluate

// means predict items' payoffs in [0,1] from previous rows, the model of doubly robust estimation:
//
//	q̂(a) = (S_a + 10·m)/(N_a + 10),  m = ΣS/ΣN, in the first row its payoff
type means struct {
	n, sum       []float64 // by item
	allN, allSum float64
}

// modelWeight is the weight in payoffs of the mean of all items.
const modelWeight = 10

// predict sets q̂ of a row whose payoff is known.
func (m *means) predict(x *row, items []int32) {
	all := x.payoff
	if x.guessed = m.allN == 0; !x.guessed {
		all = m.allSum / m.allN
	}
	x.model = x.model[:0]
	for _, i := range items {
		m.grow(i)
		x.model = append(x.model, (m.sum[i]+modelWeight*all)/(m.n[i]+modelWeight))
	}
}

func (m *means) paid(item int32, r float64) {
	m.grow(item)
	m.n[item]++
	m.sum[item] += r
	m.allN++
	m.allSum += r
}

func (m *means) grow(item int32) {
	for int(item) >= len(m.n) {
		m.n, m.sum = append(m.n, 0), append(m.sum, 0)
	}
}
