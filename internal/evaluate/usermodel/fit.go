package usermodel

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/policy"
)

type row struct {
	shown    []int32
	selected int32 // the position; -1 for none
	times    float64
}

// Rows are the impressions to which a model is fitted. The zero value is empty. They are not safe for concurrent use.
type Rows struct {
	all    []row
	same   map[string]int
	key    []byte
	items  int
	total  float64
	picked float64 // with a selection
	noisy  bool
}

// Add adds an impression: its ranking, as Shown returns it, and the selection's position, from 0; -1 for none.
func (r *Rows) Add(shown []int32, selected int) {
	r.total++
	if selected >= 0 {
		r.picked++
		r.noisy = r.noisy || shown[selected]&leads == 0
	}
	r.key = binary.AppendVarint(r.key[:0], int64(selected))
	for _, x := range shown {
		r.key = binary.AppendUvarint(r.key, uint64(x))
		r.items = max(r.items, int(x>>1)+1)
	}
	if k, ok := r.same[string(r.key)]; ok {
		r.all[k].times++
		return
	}
	if r.same == nil {
		r.same = map[string]int{}
	}
	r.same[string(r.key)] = len(r.all)
	r.all = append(r.all, row{slices.Clone(shown), int32(selected), 1})
}

const (
	// takenWeight is the weight in users of the mean of all items. More would pull favourites down.
	takenWeight = 0.2
	// seldom is the number of finds below which items share one selection probability. If each had its own, they would explain all
	// their selections, whatever the windows.
	seldom     = 30
	firstNoise = 0.05
	tolerance  = 1e-6 // of the log likelihood, per round
	rounds     = 300
)

// Fit returns the most likely model, with windows up to longest or given ones. policy.PriorWindows, of policy.PriorWeight users,
// are the prior. It is EM (Dempster, Laird, Rubin, JRSS B 1977) with extrapolated steps (Varadhan, Roland, Scand. J. Stat. 2008).
func (r *Rows) Fit(longest int, given []float64) *Model {
	m := &Model{Q: make([]float64, longest), rows: r, share: make([]int32, r.items), seen: map[int][]float64{}}
	m.mean = (r.picked + 1) / (r.total + 2)
	if policy.PriorWindows(m.Q); given != nil {
		m.Q, m.given = slices.Clone(given), true
	}
	m.prior = slices.Clone(m.Q)
	m.prepare()
	m.shareOut()
	if m.noisy = r.noisy; m.noisy {
		m.Noise = firstNoise
	}
	var from, first, second point
	for range rounds {
		from = m.point(from)
		before := m.step()
		first = m.point(first)
		middle := m.step()
		second = m.point(second)
		if middle-before < tolerance {
			break
		}
		m.set(extrapolated(from, first, second))
		if m.step() < middle {
			m.set(second)
		}
	}
	return m
}

// shareOut gives items that are found often enough a probability of their own.
func (m *Model) shareOut() {
	found := make([]float64, m.rows.items)
	for k := range m.rows.all {
		x := &m.rows.all[k]
		m.each(x.shown, func(at, _ int, p float64) { found[x.shown[at]>>1] += x.times * p })
	}
	m.Taken = append(m.Taken, m.mean)
	for i, times := range found {
		if times > seldom {
			m.share[i] = int32(len(m.Taken))
			m.Taken = append(m.Taken, m.mean)
		}
	}
}

func extrapolated(from, first, second point) point {
	var steps, turns float64
	for k := range from {
		d := first[k] - from[k]
		v := second[k] - first[k] - d
		steps, turns = steps+d*d, turns+v*v
	}
	alpha := 1.0
	if turns > 0 {
		alpha = max(1, math.Sqrt(steps/turns))
	}
	to := make(point, len(from))
	for k := range from {
		d := first[k] - from[k]
		v := second[k] - first[k] - d
		to[k] = from[k] + 2*alpha*d + alpha*alpha*v
	}
	return to
}

// step makes one EM step, and returns the previous model's log posterior.
func (m *Model) step() (explained float64) {
	c := m.counts()
	for k := range m.rows.all {
		x := &m.rows.all[k]
		explained += x.times * math.Log(c.add(x, x.times))
	}
	if !m.given {
		by, sum := c.windows(), 0.0
		for w := range by {
			explained += policy.PriorWeight * m.prior[w] * math.Log(max(m.Q[w], least))
			by[w] += policy.PriorWeight * m.prior[w]
			sum += by[w]
		}
		for w := range by {
			m.Q[w] = by[w] / sum
		}
	}
	if m.noisy {
		m.Noise = c.noise / c.all
	}
	for i, a := range m.Taken {
		a = min(max(a, least), 1-least)
		explained += takenWeight * (m.mean*math.Log(a) + (1-m.mean)*math.Log(1-a))
		m.Taken[i] = (c.taken[i] + takenWeight*m.mean) / (c.taken[i] + c.left[i] + takenWeight)
	}
	m.prepare()
	return explained
}
