package dashboard

import "maps"

// The history: mostPoints of one, then two, then ten ticks each, which is two hours. A shorter past has a finer resolution.
const mostPoints = 720

var pointTicks = []int{1, 2, 10}

// point is the group's work in an interval of time.
type point struct {
	at       int64    // its end, in milliseconds since 1970
	rankings float64  // per second
	p50, p99 *float64 // seconds
	lag      int64
	learners map[string]Counts // in this time
}

// history keeps points in bounded memory.
type history struct {
	points []point
	level  int     // of pointTicks
	open   []point // ticks of the next point
}

func (h *history) add(p point) {
	h.open = append(h.open, p)
	if len(h.open) < pointTicks[h.level] {
		return
	}
	h.points = append(h.points, merged(h.open))
	h.open = h.open[:0]
	if len(h.points) <= mostPoints {
		return
	}
	if h.level == len(pointTicks)-1 {
		h.points = append(h.points[:0], h.points[1:]...)
		return
	}
	together := pointTicks[h.level+1] / pointTicks[h.level]
	h.level++
	n := 0
	for at := 0; at < len(h.points); at += together {
		part := h.points[at:min(at+together, len(h.points))]
		if len(part) < together { // continues with the next ticks
			h.open = append(h.open, part...)
			break
		}
		h.points[n] = merged(part)
		n++
	}
	clear(h.points[n:])
	h.points = h.points[:n]
}

// merged joins points: rates are averaged, latencies are the worst.
func merged(all []point) point {
	last := all[len(all)-1]
	m := point{at: last.at, lag: last.lag, learners: map[string]Counts{}}
	for i := range all {
		m.rankings += all[i].rankings / float64(len(all))
		m.p50, m.p99 = worse(m.p50, all[i].p50), worse(m.p99, all[i].p99)
		for name, c := range all[i].learners {
			m.learners[name] = m.learners[name].plus(c)
		}
	}
	return m
}

func worse(a, b *float64) *float64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

// sums returns each learner's sums over the whole history.
func (h *history) sums() map[string]Counts {
	all := map[string]Counts{}
	for _, points := range [][]point{h.points, h.open} {
		for i := range points {
			for name, c := range points[i].learners {
				all[name] = all[name].plus(c)
			}
		}
	}
	return all
}

// History is the content of /page/history.json. Lists are as long as Times.
type History struct {
	Form     int                `json:"form"`
	Times    []int64            `json:"times"`    // milliseconds since 1970
	Rankings []float64          `json:"rankings"` // per second
	P50      []*float64         `json:"p50"`      // seconds from impression to ranking; null: none in that time
	P99      []*float64         `json:"p99"`
	Lag      []int64            `json:"lag"` // records
	Learners map[string]*Series `json:"learners"`
	Lifts    Lifts              `json:"lifts"` // with times of their own
}

// Series is a learner's history, in the payoffs' own unit per impression; null if too little is
// known. Each value covers at least the last smoothed impressions, as far as they reach back.
type Series struct {
	Payoff    []*float64 `json:"payoff"`
	ByUtility []*float64 `json:"by_utility"`
	How       string     `json:"how"` // byMeans, byShares, byPropensities or ""
}

const (
	smoothed     = 2000 // impressions: deadlines pass in bursts, with the unpaid ones
	smoothPoints = 60
	fewest       = 20 // impressions, or nothing is shown
)

// show makes the series of all learners, given their payoff ranges.
func (h *history) show(ranges map[string][2]float64) *History {
	n := len(h.points)
	out := &History{Form: form, Times: make([]int64, n), Rankings: make([]float64, n), P50: make([]*float64, n), P99: make([]*float64, n),
		Lag: make([]int64, n), Learners: map[string]*Series{}}
	for i := range h.points {
		p := &h.points[i]
		out.Times[i], out.Rankings[i], out.P50[i], out.P99[i], out.Lag[i] = p.at, *rounded(p.rankings), p.p50, p.p99, p.lag
	}
	for name := range maps.Keys(ranges) {
		s := &Series{Payoff: make([]*float64, n), ByUtility: make([]*float64, n)}
		for i := range h.points[:h.active(name)] {
			c := h.lastSums(name, i)
			if c.Ended < fewest {
				continue
			}
			if c.Early > 0 {
				continue
			}
			s.Payoff[i], _ = c.perImpression(ranges[name])
			x, _, how := c.byUtility(ranges[name])
			if s.ByUtility[i] = x; x != nil {
				s.How = how
			}
		}
		out.Learners[name] = s
	}
	return out
}

// active returns the number of points up to the last one in which a learner had a record or a deadline. Behind it a line would suggest traffic.
func (h *history) active(name string) int {
	n := len(h.points)
	for n > 0 && h.points[n-1].learners[name] == (Counts{}) {
		n--
	}
	return n
}

// lastSums returns a learner's sums over its last impressions as of point i.
func (h *history) lastSums(name string, i int) Counts {
	var c Counts
	for at := i; at >= 0 && i-at < smoothPoints; at-- {
		c = c.plus(h.points[at].learners[name])
		if c.Ended >= smoothed && (!c.weighed() || c.worth() >= leastWorth) {
			break
		}
	}
	return c
}
