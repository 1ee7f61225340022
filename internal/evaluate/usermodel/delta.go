package usermodel

import (
	"github.com/ranker-worker/ranker-worker/policy"
)

// products computes products of u with rows' gradients of log P.
type products struct {
	m    *Model
	u    point
	qu   []float64         // q·u by window
	upTo []float64         // sums of qu
	seen map[int][]float64 // glances of qu, by length of the list
}

func (m *Model) products(u point) *products {
	l := &products{m: m, u: u, seen: map[int][]float64{}}
	for w, q := range m.Q {
		l.qu = append(l.qu, q*u[w])
	}
	l.upTo = sumsOf(nil, l.qu)
	return l
}

// users is the product of u with one user of counts.users.
func (l *products) users(at, high, n int, glance []float64) (x float64) {
	m := l.m
	if high > 0 {
		x = (1 - m.Noise) * span(l.upTo, at+1, high)
	}
	if glance == nil {
		return x
	}
	g := l.seen[n]
	if g == nil {
		g = glances(l.qu, n)
		l.seen[n] = g
	}
	return x + m.Noise*(g[at+1]+l.u[len(m.Q)]*glance[at+1])
}

func (l *products) of(r *row) (x float64) {
	m, n := l.m, len(r.shown)
	taken := l.u[len(m.Q)+1:]
	var glance []float64
	if x = -l.upTo[len(m.Q)]; m.noisy {
		glance = m.glancesOf(n)
		x -= m.Noise * l.u[len(m.Q)]
	}
	if at := int(r.selected); at >= 0 {
		i := m.of(r.shown[at])
		return x + l.users(at, m.spanOf(r.shown, at), n, glance)/max(m.Found(r.shown, at), least) + (1-m.Taken[i])*taken[i]
	}
	nothing := m.leaves(r.shown)
	m.each(r.shown, func(at, high int, p float64) {
		i := m.of(r.shown[at])
		a := m.Taken[i]
		x += (1 - a) / nothing * (l.users(at, high, n, glance) - a*taken[i]*p)
	})
	return x
}

// information returns (Σ s·sᵀ + Λ)·u, with rows' gradients s of log P and the prior's curvature Λ.
func (m *Model) information(u point) point {
	l, c := m.products(u), m.counts()
	for k := range m.rows.all {
		x := &m.rows.all[k]
		c.add(x, x.times*l.of(x))
	}
	out := c.gradient()
	all := l.upTo[len(m.Q)]
	for w, q := range m.Q {
		if m.given {
			out[w] = 0
		} else {
			out[w] += policy.PriorWeight * q * (u[w] - all)
		}
	}
	for i, a := range m.Taken {
		out[len(m.Q)+1+i] += takenWeight * a * (1 - a) * u[len(m.Q)+1+i]
	}
	return out
}

func (m *Model) scale() point {
	c := m.counts()
	for k := range m.rows.all {
		x := &m.rows.all[k]
		c.add(x, x.times)
	}
	var d point
	for _, q := range m.Q {
		d = append(d, (0.3*c.all+policy.PriorWeight)*q)
	}
	d = append(d, 0.1*c.all*m.Noise)
	for i, a := range m.Taken {
		d = append(d, (c.taken[i]+c.left[i]+takenWeight)*a*(1-a))
	}
	for k := range d {
		d[k] = max(d[k], 1e-6)
	}
	return d
}

const (
	solves  = 200  // bounds the steps
	precise = 1e-4 // of g
)

// solve returns information⁻¹·g by conjugate gradients. g must be in the range of information.
func (m *Model) solve(g point) point {
	d := m.scale()
	u, rest := make(point, len(g)), append(point(nil), g...)
	z := make(point, len(g))
	for k := range z {
		z[k] = rest[k] / d[k]
	}
	p := append(point(nil), z...)
	first := dot(rest, z)
	for rz, step := first, 0; step < solves && rz > precise*precise*first; step++ {
		ap := m.information(p)
		alpha := rz / dot(p, ap)
		for k := range u {
			u[k] += alpha * p[k]
			rest[k] -= alpha * ap[k]
			z[k] = rest[k] / d[k]
		}
		next := dot(rest, z)
		for k := range p {
			p[k] = z[k] + next/rz*p[k]
		}
		rz = next
	}
	return u
}

func dot(x, y point) (sum float64) {
	for k := range x {
		sum += x[k] * y[k]
	}
	return sum
}
