package usermodel

// counts are expected numbers of users, by window and by item found, given rows, whose weights may be negative.
type counts struct {
	m       *Model
	all     float64
	noise   float64           // of users who find any item
	taken   []float64         // by index in Taken: selected
	left    []float64         // by index in Taken: not selected
	spans   []float64         // differences, by window, of counts over q
	chances map[int][]float64 // by length of the list: counts over q/min(w,n) of windows from [k] on
}

func (m *Model) counts() *counts {
	return &counts{m: m, spans: make([]float64, len(m.Q)+2), chances: map[int][]float64{}, taken: make([]float64, len(m.Taken)), left: make([]float64, len(m.Taken))}
}

// users adds users who find the item at a position, divided by its probability, to the windows.
func (c *counts) users(at, high, n int, glance []float64, weight float64) {
	m := c.m
	if longest := len(m.Q); high > 0 && at < longest {
		x := weight * (1 - m.Noise)
		c.spans[at+1] += x
		c.spans[min(high, longest)+1] -= x
	}
	if glance == nil {
		return
	}
	x := c.chances[n]
	if x == nil {
		x = make([]float64, n+1)
		c.chances[n] = x
	}
	x[at+1] += weight * m.Noise
	c.noise += weight * m.Noise * glance[at+1]
}

// found adds users who find the item at a position, which has probability p.
func (c *counts) found(shown []int32, at int, p, weight float64) {
	var glance []float64
	if c.m.noisy {
		glance = c.m.glancesOf(len(shown))
	}
	c.all += weight
	c.users(at, c.m.spanOf(shown, at), len(shown), glance, weight/p)
}

func (c *counts) selected(shown []int32, at int, p, weight float64) {
	c.found(shown, at, p, weight)
	c.taken[c.m.of(shown[at])] += weight
}

// add adds users of a row, and returns the row's probability.
func (c *counts) add(r *row, weight float64) float64 {
	m := c.m
	if at := int(r.selected); at >= 0 {
		p := max(m.Found(r.shown, at), least)
		c.selected(r.shown, at, p, weight)
		return p * m.Taken[m.of(r.shown[at])]
	}
	var glance []float64
	if m.noisy {
		glance = m.glancesOf(len(r.shown))
	}
	c.all += weight
	nothing := m.leaves(r.shown)
	m.each(r.shown, func(at, high int, p float64) {
		i := m.of(r.shown[at])
		x := weight * (1 - m.Taken[i]) / nothing
		c.left[i] += x * p
		c.users(at, high, len(r.shown), glance, x)
	})
	return nothing
}

func (c *counts) windows() []float64 {
	q := c.m.Q
	by := make([]float64, len(q))
	sum := 0.0
	for w := range by {
		sum += c.spans[w+1]
		by[w] = sum
	}
	for n, from := range c.chances {
		sum = 0
		for w := range by {
			if w < n {
				sum += from[w+1]
			}
			by[w] += sum / float64(min(w+1, n))
		}
	}
	for w := range by {
		by[w] *= q[w]
	}
	return by
}

// gradient returns the gradient of Σ weight·log P in the model's parameters.
func (c *counts) gradient() point {
	m := c.m
	g := make(point, 0, len(m.Q)+1+len(m.Taken))
	for w, x := range c.windows() {
		if m.given {
			x = c.all * m.Q[w]
		}
		g = append(g, x-c.all*m.Q[w])
	}
	if m.noisy {
		g = append(g, c.noise-c.all*m.Noise)
	} else {
		g = append(g, 0)
	}
	for i, a := range m.Taken {
		g = append(g, c.taken[i]*(1-a)-c.left[i]*a)
	}
	return g
}
