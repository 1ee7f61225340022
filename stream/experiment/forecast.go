package experiment

import "math"

// Forecast is the probability of each verdict on an arm once all units so far are past their deadlines. It is no proof.
type Forecast struct {
	Better float64 `json:"better"`
	Worse  float64 `json:"worse"`
}

// Settings of forecasts.
const (
	leastCome = 0.9 // of the payoffs of the oldest units
	liftPrior = 0.1 // standard deviation of lifts
)

// forecast returns nil until almost all payoffs of the oldest units have come. s is the scale of bounds. left is the share of the variance of D
// that covariates leave, times the design effect by user.
//
// The arm may pay sooner or later than the control. Suppose that its payoffs by the control's go by a straight line in the percentile u of lateness.
// Then the differences of lag l, by history's g_l, are
//
//	d_l/g_l = δ₀ + δ₁·(u_l−1/2) + noise of variance proportional to 1/w_l,   w_l = g_l/(1/n_arm + 1/n_control)
//
// Least squares, weighted by w, give δ₀, the lift. Its variance is V_T, that of D once all units are due, and the part that the ages
// of payoffs and the slope add. With a normal prior of lifts around 0, D then is normal given δ₀ now.
func (p *pair) forecast(h *History, s *scale, left float64) *Forecast {
	if p.last < 0 || h[p.last] < leastCome {
		return nil
	}
	slopes := p.slopes(p.last)
	var w0, w1, w2, y0, y1 float64
	for l := range p.last + 1 {
		g := h.step(l)
		if g <= 0 {
			continue
		}
		d := (p.x[0][l]-slopes[l]*p.z[0][l])/p.n[0][l] - (p.x[1][l]-slopes[l]*p.z[1][l])/p.n[1][l]
		w, u := g/(1/p.n[0][l]+1/p.n[1][l]), h.percentile(l)-0.5
		w0, w1, w2 = w0+w, w1+w*u, w2+w*u*u
		y0, y1 = y0+w*d/g, y1+w*u*d/g
	}
	det := w0*w2 - w1*w1
	if det <= 0 {
		return nil
	}
	units := 1/p.n[0][0] + 1/p.n[1][0]
	final := left * s.variance * units
	added := left * (s.variance + s.mean*s.mean) * max(w2/det-units, 0)
	const prior = liftPrior * liftPrior
	shrink := (prior + final) / (prior + final + added)
	mean, deviation, r := shrink*(y0*w2-y1*w1)/det, math.Sqrt(shrink*added), s.Radius(final)
	return &Forecast{Better: normalAbove(r, mean, deviation), Worse: normalAbove(r, -mean, deviation)}
}

// normalAbove returns the probability that a normal variable is above x.
func normalAbove(x, mean, deviation float64) float64 {
	if deviation == 0 {
		if mean > x {
			return 1
		}
		return 0
	}
	return math.Erfc((x-mean)/deviation/math.Sqrt2) / 2
}
