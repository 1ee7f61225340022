package policy

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
