package policy

import "math"

// Context is an impression's user segment and features. The numbers are features.Space's.
type Context struct {
	// Segment is the number of the user's segment (features.Space); 0 if it is not declared.
	Segment int32
	// At is the event time in milliseconds from which deadlines count.
	At int64
	// X has a row of features for each candidate, in their order, in units of 1/127.
	X []int8
}

// Known holds a contextual learner's estimates of one impression's candidates.
type Known struct {
	// Candidates are in the order of Input.Items. A candidate of weight 0 leads before all others.
	Candidates []Estimate
	// Variance is σ², of payoffs around their expectation; Kappa is the weight in payoffs of the prior for items.
	Variance, Kappa float64
	// Plain says that the estimates are of features alone, without learned variances. Then their error is at most
	// √(x'A⁻¹x)·(√(2·log(1/δ)+LogDet)·σ + √λ·‖θ−θ⁰‖) for every x at all times, with probability 1−δ, with the fields below.
	Plain  bool
	LogDet float64 // log det A/Λ
	Ridge  float64 // λ
	// Factors are the factors of the estimates, in the same order, if these are payoffs per impression. Otherwise empty.
	Factors []Factors
	// Share is the mean share of selections, which the estimates are relative to. Nothing is the payoff of an impression without a
	// selection.
	Share, Nothing float64
	Fair           float64 // impressions that shares are learned from, over the number of items
}

// Factors are a candidate's expected share of selections when on top, and its expected payoff of a selection.
type Factors struct{ Share, Payoff Estimate }

// worth maps a payoff of a selection to nothing + times·(payoff − nothing).
type worth struct{ times, nothing float64 }

func (w worth) of(payoff float64) float64 { return w.nothing + float64(w.times*(payoff-w.nothing)) }

// selection returns a candidate's expected payoff of a selection, and the map from payoffs to the index's scale for policies with bounds of
// their own or none. of is the candidate's estimate, which is that payoff unless it is of payoff per impression. The map is the identity, or for payoff per impression the upper bound of the share relative to the mean share. Shares
// are learned on top alone, where items of high utility seldom are. So an item without a known share leads until it has one.
func (in *Input) selection(k int32, of Estimate) (payoff Estimate, w worth) {
	if known := in.Known; known != nil && len(known.Factors) > 0 {
		f := &known.Factors[k]
		return f.Payoff, worth{TimesAtMost(f.Share, known.Share, known.Fair), known.Nothing}
	}
	return of, worth{times: 1}
}

// TimesAtMost returns a share's upper bound with the bonus of MOSS, relative to the mean share; fair is Known.Fair.
func TimesAtMost(share Estimate, mean, fair float64) float64 {
	spread := max(share.Mean*(1-share.Mean), mean*(1-mean))
	return min(1, share.Mean+math.Sqrt(float64(2*spread*math.Log(1+fair/share.Weight))/share.Weight)) / mean
}

// Estimate is an expected payoff, and its weight in payoffs; its variance is σ²/Weight.
type Estimate struct{ Mean, Weight float64 }

// SegmentOf returns the user's segment; 0 without a context.
func (c *Context) SegmentOf() int32 {
	if c == nil {
		return 0
	}
	return c.Segment
}

// Row returns the features of the candidate at position k of n; nil without a context.
func (c *Context) Row(k, n int) []int8 {
	if c == nil {
		return nil
	}
	width := len(c.X) / n
	return c.X[k*width : (k+1)*width]
}
