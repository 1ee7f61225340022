package policy

// Context is what is known of an impression besides its candidates: whom it is shown to, and in numbers what may make a candidate's
// payoff differ from user to user. The numbers are features.Space's.
type Context struct {
	// Segment is the number of the user's segment, from 0; 0 where segments are not told apart.
	Segment int32
	// X has a row of numbers for each candidate, row by row in their order, each number in units of 1/127.
	X []int8
}

// Row is the numbers of the candidate at position k of n; nil without a context.
func (c *Context) Row(k, n int) []int8 {
	if c == nil {
		return nil
	}
	width := len(c.X) / n
	return c.X[k*width : (k+1)*width]
}
