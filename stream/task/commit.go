package task

import "time"

// commits tell the group's coordinator how far we are. Lag tools read that, and seekEarlierRun.
type commits struct {
	committed offsets // -1: nothing
	inFlight  bool
	next      time.Duration // not before
}

func newCommits() commits { return commits{committed: offsets{-1, -1, -1}} }

// commitEvery is how often the coordinator is told our offsets.
const commitEvery = time.Second

// due tells whether these offsets are to be told now; in a hurry, where nothing comes after.
func (c *commits) due(saved offsets, now time.Duration, hurry bool) bool {
	return !c.inFlight && saved != c.committed && (hurry || now >= c.next)
}

// owing tells whether the coordinator does not know these offsets yet, or has not answered.
func (c *commits) owing(saved offsets) bool { return c.inFlight || saved != c.committed }

// answered ends a commit of these offsets. Where it has failed they are told another time.
func (c *commits) answered(saved offsets, now time.Duration, ok bool) {
	c.inFlight, c.next = false, now+commitEvery
	if ok {
		c.committed = saved
	}
}
