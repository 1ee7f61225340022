package partition

import (
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// hasSegments reports whether segments are declared. Their numbers, up to 127, precede a user's steps.
func (c *Context) hasSegments() bool { return c.space.UserSegments() > 1 }

func (c *Context) ofUser() int {
	n := len(c.space.User())
	if c.hasSegments() {
		n++
	}
	return n
}

func (c *Context) split(user []int8) (segment int32, steps []int8) {
	if !c.hasSegments() {
		return 0, user
	}
	return int32(user[0]), user[1:]
}

// maxCategories bounds the cached names of categories.
const maxCategories = 1 << 14

// Categorise passes the categories of an impression's candidates, in the record's order, to a learner that uses categories.
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
