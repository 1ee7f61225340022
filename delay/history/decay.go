package history

// Decay sums evidence of a mean that drifts as a random walk, in the order of time. Evidence worth w payoffs is after a time Δ worth
//
//	w/(1 + ρ·Δ·w)
//
// (Kalman filter of a local level model), where the walk's variance grows by ρ variances of a payoff per unit of time. Sums decay in
// proportion. Little evidence hardly decays, unlike with a fixed rate, and much tends to 1/(ρ·Δ) payoffs. The zero value is empty.
type Decay struct {
	W, R, Q float64 // weight in payoffs, their sum, and the sum of their squares
	at      int64   // ms; the time up to which it has decayed
	begun   bool
}

// To decays up to a time in milliseconds; an earlier time changes nothing. rate is ρ per millisecond.
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

// Take adds evidence at To's time.
func (f *Decay) Take(w, r, q float64) {
	f.W, f.R, f.Q = f.W+w, f.R+r, f.Q+q
}
