package history

// Decay adds up evidence in the order of time, of a mean that follows a random walk: what is known of it as well as w payoffs tell
// it is after a time Δ worth
//
//	w/(1 + ρ·Δ·w),
//
// where the walk's variance grows by ρ variances of a payoff in a unit of time. So much is forgotten, and the sums in proportion.
// What few payoffs tell is hardly forgotten, which forgetting by a fixed rate does not spare; what many tell comes to be worth
// 1/(ρ·Δ) payoffs, however many they were. The zero value knows nothing.
type Decay struct {
	W, R, Q float64 // the worth in payoffs, their sum, and that of their squares
	at      int64   // up to when
	begun   bool
}

// To goes on to a time, in milliseconds; one that is past already changes nothing. rate is ρ, per millisecond.
func (f *Decay) To(time int64, rate float64) {
	if !f.begun {
		f.at, f.begun = time, true
		return
	}
	elapsed := time - f.at
	if elapsed <= 0 {
		return
	}
	f.at = time
	left := 1 / (1 + float64(rate*float64(elapsed)*f.W))
	f.W, f.R, f.Q = f.W*left, f.R*left, f.Q*left
}

// Take adds evidence of the time that To has come to.
func (f *Decay) Take(w, r, q float64) {
	f.W, f.R, f.Q = f.W+w, f.R+r, f.Q+q
}
