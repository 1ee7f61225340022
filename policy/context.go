package policy

import "math"

// Context is what is known of an impression besides its candidates: whom it is shown to, and in numbers what may make a candidate's
// payoff differ from user to user. The numbers are features.Space's.
type Context struct {
	// Segment is the number of the user's segment (features.Space); 0 where it is none that is told apart.
	Segment int32
	// At is the time from which its deadlines are counted, in milliseconds of event time.
	At int64
	// X has a row of numbers for each candidate, row by row in their order, each number in units of 1/127.
	X []int8
}

// Known is what a learner has found to be known of the candidates of one impression.
type Known struct {
	// Candidates are in the order of Input.Items. A candidate whose weight is 0 leads before all others.
	Candidates []Estimate
	// Variance is σ², of payoffs around what is expected of them; Kappa is how many payoffs it counts as to know what items are like.
	Variance, Kappa float64
	// Plain says that the estimates are of features alone, with no variance learned, and so that their error is bounded: with the
	// numbers that follow and the ridge λ, for every x at all times, with probability 1−δ, by √(x'A⁻¹x)·(√(2·log(1/δ)+LogDet)·σ + √λ·‖θ−θ⁰‖).
	Plain  bool
	LogDet float64 // log det A/Λ
	Ridge  float64 // λ
	// Factors are what the estimates are products of, in the same order, where they are of payoffs per impression; else empty.
	Factors []Factors
	// Share is the mean of all shares of selections, which the estimates are in proportion to. An impression without a selection pays Nothing.
	Share, Nothing float64
	Fair           float64 // impressions that shares are learned from, over the number of items
}

// Factors are what is expected of a candidate: which share of the impressions with it on top end with a selection, and what a selection pays.
type Factors struct{ Share, Payoff Estimate }

// worth is what a payoff of a selection counts as: times as much above nothing.
type worth struct{ times, nothing float64 }

func (w worth) of(payoff float64) float64 { return w.nothing + float64(w.times*(payoff-w.nothing)) }

// selection is what a selection of the candidate at position k is expected to pay, and what payoffs of it count as for policies that bound
// payoffs by themselves, or not at all: as themselves; or per impression, with the share of selections at its upper bound, in proportion
// to the mean of all shares. Few items of high utility are ever on top of their rankings, where alone shares are learned. So an item whose share is
// not known leads until it is.
func (in *Input) selection(k int32) (payoff Estimate, w worth) {
	if known := in.Known; known != nil && len(known.Factors) > 0 {
		f := &known.Factors[k]
		return f.Payoff, worth{ShareAtMost(f.Share, known.Share, known.Fair) / known.Share, known.Nothing}
	}
	payoff.Mean, payoff.Weight = believed(in, k)
	return payoff, worth{times: 1}
}

// ShareAtMost is a share of selections at its upper bound, with the bonus of MOSS, given the mean of all shares and Known.Fair.
func ShareAtMost(share Estimate, mean, fair float64) float64 {
	spread := max(share.Mean*(1-share.Mean), mean*(1-mean))
	return min(1, share.Mean+math.Sqrt(float64(2*spread*math.Log(1+fair/share.Weight))/share.Weight))
}

// Estimate is what is expected of a payoff: its mean, and of how many payoffs that is worth; σ² over it is its variance.
type Estimate struct{ Mean, Weight float64 }

// SegmentOf is the number of the user's segment; 0 without a context.
func (c *Context) SegmentOf() int32 {
	if c == nil {
		return 0
	}
	return c.Segment
}

// Row is the numbers of the candidate at position k of n; nil without a context.
func (c *Context) Row(k, n int) []int8 {
	if c == nil {
		return nil
	}
	width := len(c.X) / n
	return c.X[k*width : (k+1)*width]
}
