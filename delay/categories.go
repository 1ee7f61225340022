package delay

import "github.com/ranker-worker/ranker-worker/policy"

// categories are those of items, as far as they are known, by number: 0 is that of all items that have none. A number says nothing
// by itself: what is learned of categories does not depend on which has which.
type categories struct {
	look    bool // else nobody asks
	numbers policy.Pages[int32]
	byName  map[string]int32
	all     []category // by number less 1
	free    []int32    // numbers that nothing uses
	changed policy.Changes
}

// category is one that items have.
type category struct {
	name string
	uses int // by how many items, and in what a whole is told
}

// of is the number of an item's category.
func (c *categories) of(i policy.Item) int32 { return c.numbers.Get(i) }

// name is the name of an item's category; empty where it has none.
func (c *categories) name(i policy.Item) string {
	if n := c.of(i); n > 0 {
		return c.all[n-1].name
	}
	return ""
}

// set sets an item's category; an empty name is none.
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

// take is the number of a name that is used once more; 0 of none.
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
		c.all = append(c.all, category{})
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

// Categorise implements Categorising.
func (d *Direct) Categorise(i policy.Item, name string) {
	if d.users != nil && d.users.kinds.look && name != "" && d.users.kinds.name(i) != name {
		d.users.categorise(i, name)
		d.users.publishKind(i)
	}
}

// categorise moves an item to another category.
func (u *contexts) categorise(i policy.Item, name string) {
	u.eachGroup(i, func(group int32) {
		if at, ok := u.path(i, group%u.groups); ok && u.model.Has(at[0]) {
			u.model.Drop(at)
			u.untold.Note(group, 1)
		}
	})
	u.kinds.set(i, name)
}

// publishKind notes that an item's category is to be told again with its cells.
func (u *contexts) publishKind(i policy.Item) {
	u.eachCell(i, func(cell int32) {
		if own := u.own.Get(cell); !own.none() {
			u.cells.Note(cell, 1)
		}
	})
}
