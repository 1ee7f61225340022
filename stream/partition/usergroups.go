package partition

import (
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// tellsSegments tells whether segments are declared. Their numbers go to 127 and stand before a user's steps, as one more.
func (c *Context) tellsSegments() bool { return c.space.UserSegments() > 1 }

// ofUser is how many numbers are the user's.
func (c *Context) ofUser() int {
	n := len(c.space.User())
	if c.tellsSegments() {
		n++
	}
	return n
}

// split parts the user's numbers into the segment and the steps.
func (c *Context) split(user []int8) (segment int32, steps []int8) {
	if !c.tellsSegments() {
		return 0, user
	}
	return int32(user[0]), user[1:]
}

// maxCategories is how many names of categories are kept, so that telling them takes no memory.
const maxCategories = 1 << 14

// Categorise tells a learner of the categories of an impression's candidates, which are items in the order of the record, if it is one that
// looks at categories.
func (c *Context) Categorise(l delay.Learner, r *Reading, imp *event.Impression, items []policy.Item) {
	to, ok := l.(delay.Categorising)
	if !ok || !c.space.Categories() {
		return
	}
	for k := range imp.Context.Candidates {
		if name := imp.Context.Candidates[k].Category; len(name) > 0 {
			to.Categorise(items[k], r.category(name))
		}
	}
}

// category is the name as a string that stays.
func (r *Reading) category(name []byte) string {
	kept, ok := r.categories[string(name)]
	switch {
	case ok:
		return kept
	case r.categories == nil:
		r.categories = map[string]string{}
	case len(r.categories) >= maxCategories:
		clear(r.categories)
	}
	kept = string(name)
	r.categories[kept] = kept
	return kept
}
