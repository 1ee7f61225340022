package delay

import "github.com/ranker-worker/ranker-worker/policy"

// categories numbers the known categories of items; 0 means none. Numbers are arbitrary: nothing learned depends on them.
type categories struct {
	look    bool // categories are in use
	numbers policy.Pages[int32]
	byName  map[string]int32
	all     []categoryUse // by number less 1
	free    []int32       // unused numbers
	changed policy.Changes
}

type categoryUse struct {
	name string
	uses int // items with it; in a global learner, also sources' votes for it
}

func (c *categories) of(i policy.Item) int32 { return c.numbers.Get(i) }

// name returns the name of an item's category; "" for none.
func (c *categories) name(i policy.Item) string {
	if n := c.of(i); n > 0 {
		return c.all[n-1].name
	}
	return ""
}

// set sets an item's category; "" removes it.
func (c *categories) set(i policy.Item, name string) {
	before := c.of(i)
	if before == 0 && name == "" {
		return
	}
	now := c.take(name)
	c.leave(before)
	if now == 0 {
		c.numbers.Remove(i)
	} else {
		*c.numbers.At(i) = now
	}
	c.changed.Note(i, 1)
}

// take returns the number of a name and counts one more use; 0 for "".
func (c *categories) take(name string) int32 {
	if name == "" {
		return 0
	}
	n, known := c.byName[name]
	switch {
	case known:
	case len(c.free) > 0:
		n = c.free[len(c.free)-1]
		c.free = c.free[:len(c.free)-1]
	default:
		c.all = append(c.all, categoryUse{})
		n = int32(len(c.all))
	}
	if !known {
		if c.byName == nil {
			c.byName = map[string]int32{}
		}
		c.byName[name] = n
		c.all[n-1].name = name
	}
	c.all[n-1].uses++
	return n
}

// leave ends one use of a number.
func (c *categories) leave(n int32) {
	if n == 0 {
		return
	}
	at := &c.all[n-1]
	if at.uses--; at.uses == 0 {
		delete(c.byName, at.name)
		at.name = ""
		c.free = append(c.free, n)
	}
}
