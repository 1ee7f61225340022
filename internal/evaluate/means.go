package evaluate

// means predict items' payoffs in [0,1] from previous rows, the model of doubly robust estimation:
//
//	q̂(a) = (S_a + 10·m)/(N_a + 10),  m = (0.5 + ΣS)/(1 + ΣN)
type means struct {
	n, sum       []float64 // by item
	allN, allSum float64
}

// modelWeight is the weight in payoffs of the mean of all items.
const modelWeight = 10

// of appends the items' predicted payoffs.
func (m *means) of(dst []float64, items []int32) []float64 {
	all := (0.5 + m.allSum) / (1 + m.allN)
	for _, i := range items {
		m.grow(i)
		dst = append(dst, (m.sum[i]+modelWeight*all)/(m.n[i]+modelWeight))
	}
	return dst
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
