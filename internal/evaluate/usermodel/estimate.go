package usermodel

import "math"

// Estimate is of the payoff of another ranking in the same impressions:
//
//	V = Σ w·y / N,   w = π/p
//
// over all N impressions. y is the selection's payoff, p how likely the log's ranking makes it found, π how likely the other one does. Whether
// it is taken cancels out, and an impression without a selection adds 0. Where w is above √N the log has next to nothing: there stands
// the model of payoffs (E. L. Ionides, J. Comp. Graph. Stat. 2008; Wang, Agarwal, Dudík, ICML 2017).
type Estimate struct {
	m     *Model
	bound float64

	n          float64
	x, y       float64 // w·y and y
	xx, xy, yy float64
	filled     float64 // by the model of payoffs
	missing    float64 // selections where w is above the bound
	selections float64 // of the other ranking, by the model
	squares    float64 // of w, over selections, likewise
	weights    float64 // of selections
	most       float64
	byFit      *counts // the gradient of Σ w·y
	withX      *counts // Σ w·y and Σ y, times rows' gradients
	withY      *counts
}

// Estimate makes one of no impressions, of so many that will be added.
func (m *Model) Estimate(impressions int) *Estimate {
	return &Estimate{m: m, bound: math.Sqrt(float64(max(1, impressions))), byFit: m.counts(), withX: m.counts(), withY: m.counts()}
}

// Shows is an impression: how likely the log's ranking and the other one make each candidate found, the items and the payoff each is taken to have; all
// by utility rank.
type Shows struct {
	Logged, Other []float64
	Items         []int32
	Worth         []float64
	Fitted        bool // the model was fitted to it, too
}

// Add takes in an impression; it returns whether w of the selected candidate is within the bound; selected is -1 for none.
func (e *Estimate) Add(s *Shows, selected int) bool {
	m := e.m
	e.n++
	for rank, pi := range s.Other {
		if pi <= 0 {
			continue
		}
		taken := m.Taken[m.of(s.Items[rank]<<1)]
		e.selections += pi * taken
		if p := s.Logged[rank]; p*e.bound < pi {
			e.missing += pi * taken
			e.filled += pi * taken * s.Worth[rank]
		} else {
			e.squares += pi * pi / p * taken
		}
	}
	return selected >= 0 && s.Logged[selected]*e.bound >= s.Other[selected]
}

// Paid takes in the payment of the selection of the impression that was added last. It stands at a position, from 0, of the log's ranking, and at
// another of the other one; both as Shown has them. A selection beyond the bound counts for the payoff of the log alone.
func (e *Estimate) Paid(s *Shows, logged []int32, at int, other []int32, to int, within bool, y float64) {
	p := max(e.m.Found(logged, at), least)
	e.y, e.yy = e.y+y, e.yy+y*y
	if s.Fitted {
		e.withY.selected(logged, at, p, y)
	}
	if !within {
		return
	}
	pi := e.m.Found(other, to)
	w := pi / p
	x := w * y
	e.weights, e.most = e.weights+w, max(e.most, w)
	e.x, e.xx, e.xy = e.x+x, e.xx+x*x, e.xy+x*y
	if x == 0 {
		return
	}
	e.byFit.found(other, to, pi, x)
	e.byFit.found(logged, at, p, -x)
	if s.Fitted {
		e.withX.selected(logged, at, p, x)
	}
}

// Result is an estimate. Standard errors are by the delta method: they include the uncertainty of the fit.
type Result struct {
	Impressions float64
	Value       float64
	Stderr      float64
	Paid        float64 // an impression of the log
	// Difference is the standard error of Value − Paid, and Ratio of the logarithm of Value/Paid.
	Difference, Ratio float64
	Filled            float64 // of Value, the part by the model of payoffs
	Unsupported       float64 // of the other ranking's selections, the share where w is above the bound
	// Effective is how many selections of equal weight stand behind the rest.
	Effective  float64
	MeanWeight float64 // of selections, over those that the model expects
	MaxWeight  float64
	// Unbalanced is by how many standard deviations the sum of weights is off.
	Unbalanced float64
}

// Result is the estimate until now.
func (e *Estimate) Result() Result {
	r := Result{Impressions: e.n, MaxWeight: e.most}
	if e.n == 0 {
		return r
	}
	g := e.byFit.gradient()
	u := e.m.solve(g)
	own, ux, uy := max(0, dot(u, g)), dot(u, e.withX.gradient()), dot(u, e.withY.gradient())
	// variance is that of α·Σ w·y + β·Σ y.
	variance := func(alpha, beta float64) float64 {
		mean := (alpha*e.x + beta*e.y) / e.n
		v := alpha*alpha*(e.xx+2*ux+own) + 2*alpha*beta*(e.xy+uy) + beta*beta*e.yy - e.n*mean*mean
		return max(0, v)
	}
	r.Value, r.Paid, r.Filled = (e.x+e.filled)/e.n, e.y/e.n, e.filled/e.n
	r.Stderr = math.Sqrt(variance(1, 0)) / e.n
	r.Difference = math.Sqrt(variance(1, -1)) / e.n
	if e.x != 0 && e.y != 0 {
		r.Ratio = math.Sqrt(variance(1/e.x, -1/e.y))
	}
	if e.selections > 0 {
		r.Unsupported = e.missing / e.selections
	}
	expected := e.selections - e.missing
	if e.squares > 0 {
		r.Effective = expected * expected / e.squares
		r.MeanWeight = e.weights / expected
		r.Unbalanced = math.Abs(e.weights-expected) / math.Sqrt(e.squares)
	}
	return r
}
