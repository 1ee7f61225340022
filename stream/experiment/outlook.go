package experiment

import (
	"fmt"
	"math"

	"github.com/ranker-worker/ranker-worker/policy/confidence"
)

// History is the share of payoffs that have come by the end of each lag, of earlier units. It rises to 1.
type History [Lags]float64

// HistoryOf returns the history of units that begin evenly within a bucket. by returns the share of payoffs that have come by an age. Times are
// in milliseconds.
func HistoryOf(horizon int64, by func(age int64) float64) *History {
	const points = 16 // in a bucket
	h, width := &History{}, BucketWidth(horizon)
	for l := range h {
		for k := range int64(points) {
			h[l] += by(int64(l)*width+(2*k+1)*width/(2*points)) / points
		}
	}
	h[Lags-1] = 1
	return h
}

// Settings of comparisons of units before their deadlines.
const (
	// twice is the multiple of the payoffs that the control still gets, by history, which is taken off the lower bound. 1 would do if history
	// were right.
	twice = 2
	// leastPayoffs is the least number of payoffs in each arm, and of units that have reached a lag. The bounds of endOf are asymptotic.
	leastPayoffs = 50
	// mostLate is the number of standard errors by which the control may be later, or earlier, than history.
	mostLate = 3
	// tightest is the number of effective units around which bounds are tightest.
	tightest = 5000
	// certain is the e-value from which arms' timing certainly differs, with a probability of error of 1/certain at any look.
	certain = 1 / Alpha
	// leastLeft is the least share of an arm's variance that covariates leave.
	leastLeft = 0.02
	// leastVariance is the least variance of a unit's payoff. Sums rounded to 2⁻²⁰ add up to 2⁻⁴⁰/12, a thirteenth of it, if each is of one payoff.
	leastVariance = 1e-12
	// strength is the weight of the prior of a lag group's share of payoffs, in payoffs.
	strength = 50
)

// Interval is an estimate with bounds that hold at every look.
type Interval struct {
	Estimate float64 `json:"estimate"`
	Lower    float64 `json:"lower"`
	Upper    float64 `json:"upper"`
}

// Outlook compares an arm with the control by all units, old and young, as of the last ended bucket. By user, units are impressions, too.
// Figures are in payoff ranges.
type Outlook struct {
	Units int64 // of both, which have entered
	Due   int64 // of these, past their deadlines
	End   End
	// SoFar is the gain of an impression by now: the payoffs that all units would have brought by now under the arm, less those under the
	// control, by unit. By impression it is not known where payoffs may fall or come in parts, and SoFarWhy says why.
	SoFar    Interval
	SoFarWhy string
	Timing   Timing
}

// End is a lift at the horizon: when all payoffs of a unit have come.
type End struct {
	// Interval has no upper bound, +1, before the first deadlines. Estimate is 0 if refused.
	Interval
	Verdict Verdict
	Why     string  // of Refused
	Lag     int     // the oldest lag that is counted
	Come    float64 // the share of the control's payoffs that have come by then, by history
	// Explained is the share of the variance that covariates have taken away, of all units.
	Explained float64
	// BreakEven is the least multiple of the control's payoffs after Lag that the arm needs to draw level. It is 0 if not above 1, and from
	// the first deadlines on.
	BreakEven float64
	Forecast  *Forecast // nil: not known
}

// Timing compares when arms pay. Sooner and later say that the arm pays earlier, or later, than the control.
type Timing uint8

const (
	NoTiming  Timing = iota // not known
	AsControl               // as far as is seen
	Sooner
	Later
)

func (t Timing) String() string { return [...]string{"", "as control", "sooner", "later"}[t] }

// Ahead returns whether an arm is ahead, behind or open by its payoffs so far; empty if they are not known.
func (o *Outlook) Ahead() string {
	if o.SoFarWhy != "" {
		return ""
	}
	return [...]string{Open: "open", Better: "ahead", Worse: "behind"}[verdictOf(o.SoFar.Lower, o.SoFar.Upper)]
}

// Outlook compares an arm with the control. History is nil where none is long enough; no then says why.
func (e *Experiment) Outlook(arm int, t LagTotals, h *History, no string) Outlook {
	p := e.pairOf(arm, t)
	o := Outlook{Units: int64(p.n[0][0] + p.n[1][0]), Due: int64(p.n[0][Lags-1] + p.n[1][Lags-1])}
	o.End = e.endOf(p, h, no)
	switch {
	case e.ByUser:
		o.SoFar = p.soFarByUser()
	case e.InParts:
		o.SoFarWhy = "payoffs come in parts"
	case e.Falls:
		o.SoFarWhy = "payoffs can fall"
	default:
		o.SoFar, o.Timing = p.soFar(), p.timing()
	}
	return o
}

// AtHorizon compares an arm with the control at the horizon, from the first deadlines on. Guards use it.
func (e *Experiment) AtHorizon(arm int, t LagTotals) End {
	return e.endOf(e.pairOf(arm, t), nil, "no deadline has passed")
}

// Trips reports whether a guard stops the arm, as Lift.Trips does.
func (l *End) Trips(margin float64) bool { return l.Verdict != Refused && l.Upper < -margin }

// pair are an arm and the control. Arrays are by lag, the arm first.
type pair struct {
	*rival
	share   [2]float64 // of both together
	alpha   float64
	n, z, s [2][Lags]float64 // units that have reached the lag, their covariates and the squares of these
	k, x    [2][Lags]float64 // payoffs and their sums
	u, m    [2][Lags]float64 // see Paid
	last    int              // the greatest lag that enough units of both have reached, −1 for none
	effect  float64          // the design effect by user; 1 by impression
	each    float64          // parts of a payoff: squared payoffs of units by squares of parts, at least 1
	blocks  []block          // by user
}

// block holds the impressions and payoffs of a block of user groups, as pair does those of all.
type block struct{ n, k, x [2][Lags]float64 }

func (e *Experiment) pairOf(arm int, t LagTotals) *pair {
	r := &e.rivals[arm]
	p := &pair{rival: r, share: [2]float64{r.arm, r.control}}
	p.alpha = Alpha / float64(len(e.Arms)-1)
	var parts, whole int64 // squares of parts, and U
	for b := range e.Blocks() {
		of, one := t.Block(b, len(e.Arms)), block{}
		for i, a := range [2]*armLags{&of[arm], &of[e.control]} {
			var reached EntrySums
			for l := Lags - 1; l >= 0; l-- {
				reached = reached.add(a.Entered[l])
				s := &a.Paid[l]
				one.n[i][l], one.k[i][l], one.x[i][l] = float64(reached.N), float64(s.K), float64(s.X)/perTotal
				p.n[i][l], p.k[i][l], p.x[i][l] = p.n[i][l]+one.n[i][l], p.k[i][l]+one.k[i][l], p.x[i][l]+one.x[i][l]
				p.z[i][l], p.s[i][l] = p.z[i][l]+float64(reached.Z)/perTotal, p.s[i][l]+float64(reached.S)/perTotal
				p.u[i][l], p.m[i][l] = p.u[i][l]+float64(s.U)/perTotal, p.m[i][l]+float64(s.M)/perTotal
				parts, whole = parts+s.Q, whole+s.U
			}
		}
		if e.ByUser {
			p.blocks = append(p.blocks, one)
		}
	}
	if p.each = 1; parts > 0 {
		p.each = max(1, float64(whole)/float64(parts))
	}
	p.last, p.effect = p.reached(leastPayoffs), 1
	if e.ByUser {
		p.effect = p.designEffect()
		p.last = p.reached(leastPayoffs * p.effect)
	}
	return p
}

// reached returns the greatest lag that so many units of both arms have reached, −1 for none.
func (p *pair) reached(least float64) int {
	last := -1
	for l := range Lags {
		if min(p.n[0][l], p.n[1][l]) >= least {
			last = l
		}
	}
	return last
}

// paidOfDue returns the lower of both arms' numbers of payoffs that are expected of units past their deadlines. Where unpaid units are worth
// more than 0, the paid ones alone show the variance.
func (p *pair) paidOfDue() float64 {
	var k [2]float64
	for i := range k {
		for l := range Lags {
			k[i] += p.k[i][l] / p.n[i][l] * p.n[i][Lags-1]
		}
	}
	return min(k[0], k[1])
}

// endOf bounds the lift at the horizon. An arm's payoff by an age is added up from all units that are old enough for each lag: a run-off
// triangle. Of lag l, let X_l be the payoffs of the n_l units that have reached it. Then
//
//	F(A) = Σ_{l≤A} X_l/n_l,   D(A) = F_arm(A) − F_control(A)
//
// and lift ≥ D(A) − r(V(A)) − 2·μ·(1−G(A)). Even if nothing more came for the arm, and for the control twice as much as history G says, the arm
// would be better. Nothing is assumed about when the arm pays. From the first deadlines on, A = 32 has G = 1 and both bounds.
// A is chosen by the numbers of units, the mean of both arms and the variance explained, never by the difference of the arms.
//
// Payoffs are compared with those that the units' covariates predict, as in Totals; see difference.
func (e *Experiment) endOf(p *pair, h *History, no string) End {
	refuse := func(why string) End {
		return End{Interval: Interval{Lower: -1, Upper: 1}, Verdict: Refused, Why: why}
	}
	few := p.few()
	switch {
	case !e.ByUser && !p.fit(int64(p.n[0][0]), int64(p.n[1][0])):
		return refuse("the arms' numbers of units do not fit the shares: impressions of one arm are lost or repeated")
	case few != "":
		return refuse(few)
	case e.Falls:
		h, no = nil, "payoffs can fall, so that nothing more is no bound"
	case h != nil && math.Abs(p.late(h)) > mostLate:
		h, no = nil, "the control does not pay as late as it did"
	}
	if h == nil && p.last < Lags-1 {
		return refuse(no)
	}
	if e.Falls && p.paidOfDue() < leastPayoffs*p.effect*p.each {
		return refuse("too few units past their deadlines are paid, and payoffs can fall")
	}
	left := 1.0
	if _, v, of := p.difference(p.last); v > 0 {
		left = of / v
	}
	s, end := p.scale(h, left), End{Lag: Lags - 1, Come: 1, Explained: max(1-left, 0)}
	if h != nil {
		end.Lag = p.narrowest(s, h, left)
		end.Come = h[end.Lag]
	}
	bounded := func(lag int) (d, radius float64) {
		d, _, v := p.difference(lag)
		return d, s.Radius(max(v, p.leastVariance(lag)))
	}
	d, radius := bounded(end.Lag)
	end.Lower, end.Upper = max(d-radius-twice*s.mean*(1-end.Come), -1), 1
	if end.Come > 0 {
		end.Estimate = d / end.Come
	}
	if more := s.mean * (1 - end.Come); p.last < Lags-1 && more > 0 && d+radius < 0 {
		end.BreakEven = 1 - (d+radius)/more
	}
	if p.last == Lags-1 {
		d, radius := bounded(Lags - 1)
		end.Upper = min(d+radius, 1)
	}
	if h != nil {
		end.Forecast = p.forecast(h, &s, left*p.effect)
	}
	end.Verdict = verdictOf(end.Lower, end.Upper)
	return end
}

// few says that payoffs are too few. They count for fewer where they depend on each other: by the design effect, and as parts of a payoff.
func (p *pair) few() string {
	k := [2]float64{}
	for i := range k {
		for l := range Lags {
			k[i] += p.k[i][l]
		}
	}
	if least := math.Ceil(leastPayoffs * p.effect * p.each); min(k[0], k[1]) < least {
		return fmt.Sprintf("%.0f and %.0f payoffs are too few, each arm needs %.0f", k[0], k[1], least)
	}
	if p.last < 0 {
		return fmt.Sprintf("%.0f and %.0f impressions are too few, each arm needs %.0f", p.n[0][0], p.n[1][0], math.Ceil(leastPayoffs*p.effect))
	}
	return ""
}

// scale holds the mean payoff of a unit, and the radius of bounds.
type scale struct {
	mean     float64
	variance float64 // of a unit's payoff
	confidence.Normal
}

// scale takes the mean from the payoffs of both, each unit by the share of its payoff that has come; without history, by the run-off. The
// share of the variance that covariates leave is left.
func (p *pair) scale(h *History, left float64) scale {
	var x, q, exposed float64
	for l := range Lags {
		n, a, b := p.n[0][l]+p.n[1][l], p.x[0][l]+p.x[1][l], p.u[0][l]+p.u[1][l]
		switch {
		case h != nil:
			x, q, exposed = x+a, q+b, exposed+n*h.step(l)
		case n > 0:
			x, q, exposed = x+a/n, q+b/n, 1
		}
	}
	mean := x / exposed
	variance := max(q/exposed-mean*mean, leastVariance)
	return scale{mean, variance, confidence.NewNormal(p.alpha, max(left, leastLeft)*variance*(1/p.share[0]+1/p.share[1])/tightest)}
}

// step returns the share of payoffs that come with a lag.
func (h *History) step(l int) float64 {
	if l == 0 {
		return h[0]
	}
	return h[l] - h[l-1]
}

// percentile returns the lateness of payoffs with a lag: the share of payoffs that come before, half of its own included.
func (h *History) percentile(l int) float64 { return h[l] - h.step(l)/2 }

// narrowest returns the lag, among those that both arms have reached, with the least expected distance of the lower bound.
func (p *pair) narrowest(s scale, h *History, left float64) (lag int) {
	least := math.Inf(1)
	for l := range p.last + 1 {
		if width := s.Radius(left*p.planned(s, h, l)) + twice*s.mean*(1-h[l]); width < least {
			least, lag = width, l
		}
	}
	return lag
}

// planned returns the variance of D that is expected by the numbers of units and the mean of both arms.
func (p *pair) planned(s scale, h *History, upTo int) (v float64) {
	for i := range p.n {
		for l := range upTo + 1 {
			v += s.mean * h.step(l) / p.n[i][l]
		}
		come := s.mean * h[upTo]
		v -= come * come / p.n[i][0]
	}
	return v
}

// difference returns D up to a lag, its variance without covariates, and the part that they leave. Where payoffs come in parts, U of Paid
// bounds the variance.
//
// Of payoffs with lag l, slope·(z−z̄) is subtracted. Slopes are of both arms; z̄ is in both the same, and cancels out. A unit that has reached lag
// j then counts Σ_{l≤j} (x_l − slope_l·(z−z̄))/n_l. Its variance is lower by 2·b·g − σ²·b², with b = Σ slope_l/n_l and g = Σ cov_l/n_l. In its own
// arm, cov_l is the covariance of payoffs and covariates, and σ² the variance of covariates.
//
// By user there are no covariates, and the variance is that of blocks.
func (p *pair) difference(upTo int) (d, v, left float64) {
	d, v, left = p.independent(upTo)
	if p.blocks != nil {
		v = max(v, p.clustered(upTo))
		left = v
	}
	return d, v, left
}

// independent is difference for independent units.
func (p *pair) independent(upTo int) (d, v, left float64) {
	slopes, sign := p.slopes(upTo), 1.0
	for i := range p.n {
		n, spread := &p.n[i], p.spread(i, 0)/p.n[i][0]
		var c, b, g, raw, less float64
		for l := range upTo + 1 {
			m := p.x[i][l] / n[l]
			d += sign * (m - slopes[l]*p.z[i][l]/n[l])
			raw += p.u[i][l] / (n[l] * n[l])
			c, b, g = c+m/n[l], b+slopes[l]/n[l], g+p.covariance(i, l)/(n[l]*n[l])
			units := n[l]
			if l < upTo {
				units -= n[l+1]
			}
			raw -= units * c * c
			less += units * (2*b*g - spread*b*b)
		}
		raw = max(raw, 0) // sums are rounded
		v, left, sign = v+raw, left+max(raw-less, leastLeft*raw), -1
	}
	return d, v, left
}

// leastVariance returns the least variance of D up to a lag: where all payoffs are equal, arms differ by rounding.
func (p *pair) leastVariance(upTo int) float64 {
	return leastVariance * (1/p.n[0][upTo] + 1/p.n[1][upTo])
}

// covariance returns the sum of (z−z̄)·x over an arm's units that have reached a lag, x being their payoffs with that lag. spread returns that
// of (z−z̄)².
func (p *pair) covariance(i, l int) float64 { return p.m[i][l] - p.z[i][l]*p.x[i][l]/p.n[i][l] }

func (p *pair) spread(i, l int) float64 { return p.s[i][l] - p.z[i][l]*p.z[i][l]/p.n[i][l] }

// slopes returns those of payoffs on covariates, by lag, within arms. They are 0 where units are too few, or covariates too near each other.
func (p *pair) slopes(upTo int) (by [Lags]float64) {
	for l := range upTo + 1 {
		n, spread := p.n[0][l]+p.n[1][l], p.spread(0, l)+p.spread(1, l)
		if n >= leastUnits && spread >= leastSpread*n {
			by[l] = (p.covariance(0, l) + p.covariance(1, l)) / spread
		}
	}
	return by
}

// designEffect returns by how much the variance of D is larger by user than if impressions were independent.
func (p *pair) designEffect() float64 {
	_, v, _ := p.independent(p.last)
	if v <= 0 {
		return 1
	}
	return max(1, p.clustered(p.last)/v)
}

// late returns by how many standard errors the control's payoffs are later than history says, by the mean percentile of their lags. Parts of a
// payoff come together at worst.
func (p *pair) late(h *History) float64 {
	var paid, exposed, middle float64
	for l := range Lags {
		x := p.n[1][l] * h.step(l)
		paid, exposed, middle = paid+p.k[1][l], exposed+x, middle+x*h.percentile(l)
	}
	if exposed == 0 {
		return -math.Inf(1)
	}
	mean := paid / exposed
	middle /= exposed
	var z, v float64
	for l := range Lags {
		x, off := mean*p.n[1][l]*h.step(l), h.percentile(l)-middle
		z, v = z+(p.k[1][l]-x)*off, v+x*off*off
	}
	v = max(v*p.each, p.squares(func(b *block) (part float64) {
		for l := range Lags {
			part += (b.k[1][l] - mean*b.n[1][l]*h.step(l)) * (h.percentile(l) - middle)
		}
		return part
	}))
	if v == 0 {
		return 0
	}
	return z / math.Sqrt(v)
}

// soFar bounds S/n for the arm less that for the control. S is the sum of the payoffs that all n units would have brought by now under an
// arm, and C the sum of those it has brought. So Ŝ = C/π is a martingale around S. Its variance is at most (1/π−1)·S, since a payoff is at most 1.
// So each end solves L = Ŝ − B((1/π−1)·L), with a bound B for all times. The difference of both is no martingale in any filtration
// (M. Lindon and N. Kallus, "Anytime-valid inference in multinomial count data", 2022), hence four bounds that share α.
func (p *pair) soFar() Interval {
	var s, lower, upper [2]float64
	units := p.n[0][0] + p.n[1][0]
	if units == 0 {
		return Interval{Lower: -1, Upper: 1}
	}
	for i, share := range p.share {
		sum, odds := 0.0, 1/share-1
		for l := range Lags {
			sum += p.x[i][l]
		}
		s[i] = sum / share
		lower[i] = root(0, s[i], func(l float64) float64 { return l - s[i] + p.above[i].Bound(odds*l) })
		upper[i] = root(s[i], units, func(r float64) float64 { return r - s[i] - p.below[i].Bound(odds*r) })
	}
	return Interval{(s[0] - s[1]) / units, max((lower[0]-upper[1])/units, -1), min((upper[0]-lower[1])/units, 1)}
}

// root returns where f, which rises through 0, does so between two numbers, or the nearer of them, to a millionth of a payoff. It is the
// Illinois method: a secant, whose end that stays counts half the next time.
func root(low, high float64, f func(float64) float64) float64 {
	below, above := f(low), f(high)
	if below >= 0 {
		return low
	}
	if above <= 0 {
		return high
	}
	side := 0
	for range 60 {
		x := high - above*(high-low)/(above-below)
		switch y := f(x); {
		case math.Abs(y) < 1e-6:
			return x
		case y < 0:
			low, below = x, y
			if side < 0 {
				above /= 2
			}
			side = -1
		default:
			high, above = x, y
			if side > 0 {
				below /= 2
			}
			side = 1
		}
	}
	return (low + high) / 2
}

// timing compares the arm's share of payoffs between groups of lags. If both arms pay at the same time, it is the same in all of them,
// however large the lift. The e-value lets each group have a share of its own, around that of units. It is exact if the lift does not drift.
func (p *pair) timing() Timing {
	const groups = 6 // lags 0, 1, 2–3, 4–7, 8–15, 16–32
	var of, all [groups]float64
	var s, n float64
	group := 0
	for l := range Lags {
		if group < groups-1 && l == 1<<group {
			group++
		}
		of[group] += p.k[0][l]
		all[group] += p.k[0][l] + p.k[1][l]
		s += p.k[0][l]
		n += p.k[0][l] + p.k[1][l]
	}
	if s == 0 || s == n {
		return AsControl
	}
	a, b := strength*p.share[0], strength*p.share[1]
	e := -s*math.Log(s/n) - (n-s)*math.Log1p(-s/n)
	later := 0.0
	for k := range groups {
		e += logBeta(a+of[k], b+all[k]-of[k]) - logBeta(a, b)
		later += float64(k) * (of[k] - all[k]*s/n)
	}
	switch {
	case e < math.Log(certain):
		return AsControl
	case later > 0:
		return Later
	}
	return Sooner
}

// logBeta returns ln B(a,b).
func logBeta(a, b float64) float64 {
	x, _ := math.Lgamma(a)
	y, _ := math.Lgamma(b)
	z, _ := math.Lgamma(a + b)
	return x + y - z
}
