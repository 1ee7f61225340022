package task

import "time"

// commits sends offsets to the group's coordinator, for lag tools and seekEarlierRun.
type commits struct {
	committed offsets // -1: nothing
	inFlight  bool
	next      time.Duration // not before
}

func newCommits() commits { return commits{committed: offsets{-1, -1, -1}} }

const commitEvery = time.Second

// due reports whether to commit these offsets now; hurry ignores the interval.
func (c *commits) due(saved offsets, now time.Duration, hurry bool) bool {
	return !c.inFlight && saved != c.committed && (hurry || now >= c.next)
}

// owing reports whether the coordinator lacks these offsets, or has not answered.
func (c *commits) owing(saved offsets) bool { return c.inFlight || saved != c.committed }

// answered ends a commit. A failed one is repeated later.
func (c *commits) answered(saved offsets, now time.Duration, ok bool) {
	c.inFlight, c.next = false, now+commitEvery
	if ok {
		c.committed = saved
	}
}
