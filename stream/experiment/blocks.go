package experiment

// clustered returns the variance of D up to a lag by user, from the part that each block of groups adds to D:
//
//	D = Σ_b d_b,   d_b = Σ_l (x_b − n_b·X_l/n_l)/n_l of the arm, less that of the control
//
// with the payoffs x_b of lag l of the block's n_b impressions that have reached it. Blocks are independent: no user is in two of them. Each
// square is of both arms together, since a block whose users pay much adds to both.
func (p *pair) clustered(upTo int) float64 {
	return p.squares(func(b *block) (part float64) {
		sign := 1.0
		for i := range p.n {
			for l := range upTo + 1 {
				part += sign * (b.x[i][l] - b.n[i][l]*p.x[i][l]/p.n[i][l]) / p.n[i][l]
			}
			sign = -1
		}
		return part
	})
}

// squares returns the variance of a sum of blocks' parts with a mean of 0.
func (p *pair) squares(part func(b *block) float64) (v float64) {
	for k := range p.blocks {
		x := part(&p.blocks[k])
		v += x * x
	}
	return v * blocks / (blocks - 1)
}

// soFarByUser compares the payoffs so far by impression, and has no bounds while payoffs are too few. Its bounds are asymptotic, as those of
// endOf: the payoffs of a group are not limited, as soFar needs it.
func (p *pair) soFarByUser() Interval {
	var x, m [2]float64
	d, v, sign := 0.0, 0.0, 1.0
	if p.few() != "" {
		return Interval{Lower: -1, Upper: 1}
	}
	for i := range p.n {
		u, n := 0.0, p.n[i][0]
		for l := range Lags {
			x[i], u = x[i]+p.x[i][l], u+p.u[i][l]
		}
		m[i] = x[i] / n
		d, v, sign = d+sign*m[i], v+(u/n-m[i]*m[i])/n, -1
	}
	v = max(v, p.leastVariance(0), p.squares(func(b *block) float64 {
		var part [2]float64
		for i := range p.n {
			for l := range Lags {
				part[i] += b.x[i][l]
			}
			part[i] = (part[i] - m[i]*b.n[i][0]) / p.n[i][0]
		}
		return part[0] - part[1]
	}))
	r := p.scale(nil, 1).Radius(v)
	return Interval{d, max(d-r, -1), min(d+r, 1)}
}
