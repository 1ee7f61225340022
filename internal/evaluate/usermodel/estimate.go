package usermodel

import "math"

// Estimate estimates another ranking's payoff over all N impressions,
//
//	V = Σ w·y / N,   w = π/p,
//
// with the selection's payoff y and its probabilities to be found, p in the log's ranking and π in the other. The selection
// probability cancels, and impressions without a selection add 0. Where w exceeds √N, the model of payoffs stands in (E. L.
// Ionides, J. Comp. Graph. Stat. 2008; Wang, Agarwal, Dudík, ICML 2017).
type Estimate struct {
	m     *Model
	bound float64

	n          float64
	x, y       float64 // w·y and y
	xx, xy, yy float64
	filled     float64 // by the model of payoffs
	missing    float64 // selections where w is above the bound
	selections float64 // expected for the other ranking, by the model
	squares    float64 // of w, over these
	weights    float64 // of actual selections
	most       float64
	byFit      *counts // gradient of Σ w·y
	withX      *counts // Σ w·y and Σ y times rows' gradients
	withY      *counts
}

// Estimate returns an empty one for so many impressions.
func (m *Model) Estimate(impressions int) *Estimate {
	return &Estimate{m: m, bound: math.Sqrt(float64(max(1, impressions))), byFit: m.counts(), withX: m.counts(), withY: m.counts()}
}

// Shows is an impression by utility rank: the probabilities to be found in both rankings, items, and predicted payoffs.
type Shows struct {
	Logged, Other []float64
	Items         []int32
	Worth         []float64
	Fitted        bool // the model was fitted to it
}

// Add adds an impression, and returns whether the selection's weight is within the bound; selected is -1 for none.
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

// Paid adds the payoff of the last impression's selection, at a position, from 0, in the log's ranking and in the other, both as
// Shown returns them. Beyond the bound it counts for the log's payoff alone.
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

// Result is an estimate with standard errors by the delta method, the fit's uncertainty included.
type Result struct {
	Impressions float64
	Value       float64
	Stderr      float64
	Paid        float64 // per impression of the log
	// Difference is the standard error of Value − Paid, and Ratio that of log(Value/Paid).
	Difference, Ratio float64
	Filled            float64 // part of Value by the model of payoffs
	Unsupported       float64 // share of the other ranking's selections beyond the bound
	// Effective is the effective number of selections behind the rest.
	Effective  float64
	MeanWeight float64 // of selections, relative to the model's expectation
	MaxWeight  float64
	// Unbalanced is the error of the sum of weights in standard deviations.
	Unbalanced float64
}

func (e *Estimate) Result() Result {
	r := Result{Impressions: e.n, MaxWeight: e.most}
	if e.n == 0 {
		return r
	}
	g := e.byFit.gradient()
	u := e.m.solve(g)
	own, ux, uy := max(0, dot(u, g)), dot(u, e.withX.gradient()), dot(u, e.withY.gradient())
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
