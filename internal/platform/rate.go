package platform

import "time"

// rate computes how many impressions are due. It drops those that are late by more than a second.
type rate struct {
	perSecond float64
	owed      float64
	last      time.Time
}

// take returns the number due now, at most most, and the number dropped.
func (r *rate) take(now time.Time, most int) (n, lost int) {
	if !r.last.IsZero() {
		r.owed += now.Sub(r.last).Seconds() * r.perSecond
	}
	r.last = now
	n = min(int(r.owed), most)
	r.owed -= float64(n)
	if over := int(r.owed - r.perSecond); over > 0 {
		lost = over
		r.owed -= float64(over)
	}
	return n, lost
}
