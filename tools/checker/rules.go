package checker

import (
	"fmt"
	"slices"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// ruled is a candidate with the fields that rules read.
type ruled struct {
	item     string
	category string
	pin      int // 0: none
}

// checkRules checks that the current ranking is the policy's order under the impression's pins, and the caps of one of the configurations.
// The candidates are in the record's order. A ranking that no rule could have changed, and that says so, is not counted.
func checkRules(f *fold, name any, lf *learnerFold, d *event.Decision) {
	if lf == nil || len(d.Decided) == 0 && len(f.imp.Candidates) == 1 {
		return
	}
	of := map[string]ruled{}
	for i, c := range f.imp.Candidates {
		x := ruled{item: string(c.Item), pin: int(c.Pin)}
		if i < len(f.imp.Context.Candidates) {
			x.category = string(f.imp.Context.Candidates[i].Category)
		}
		of[x.item] = x
	}
	var shown, decided []ruled
	for _, item := range f.ranked.cur.Items {
		shown = append(shown, of[string(item)])
	}
	for _, at := range d.Decided {
		decided = append(decided, shown[at])
	}
	if len(d.Decided) == 0 {
		if !slices.ContainsFunc(lf.decided, func(l *config.Learner) bool { return bears(shown, l.Caps) }) {
			return
		}
		decided = shown
	}
	ok := slices.ContainsFunc(lf.decided, func(l *config.Learner) bool {
		return bears(shown, l.Caps) == (len(d.Decided) > 0) && slices.Equal(shown, underRules(decided, l.Caps))
	})
	if !f.out.ok(rankingsRules, ok) {
		f.out.breach(rankingsRules, name,
			fmt.Sprintf("by the policy's order %v: %v", decided, underRules(decided, lf.decided[0].Caps)), fmt.Sprint(shown))
	}
}

// under returns how many candidates fall under a cap, by category.
func under(c *config.Cap, all []ruled) map[string]int {
	n := map[string]int{}
	for _, x := range all {
		if x.category != "" && (c.Category == "" || c.Category == x.category) {
			n[x.category]++
		}
	}
	return n
}

// bears returns whether rules could change an order of these candidates.
func bears(all []ruled, caps []config.Cap) bool {
	for _, x := range all {
		if x.pin > 0 && len(all) > 1 {
			return true
		}
	}
	for i := range caps {
		for _, n := range under(&caps[i], all) {
			if n > caps[i].Most && len(all) > 1 {
				return true
			}
		}
	}
	return false
}

// underRules fills the places of a ranking one by one, the slow way: after each choice it counts again.
func underRules(decided []ruled, caps []config.Cap) []ruled {
	places, free := make([]*ruled, len(decided)), len(decided)
	pinned := slices.Clone(decided)
	slices.SortFunc(pinned, func(a, b ruled) int { return b.pin - a.pin })
	rest := slices.DeleteFunc(slices.Clone(decided), func(x ruled) bool { return x.pin > 0 })
	for i := range pinned {
		if pinned[i].pin > 0 {
			free = min(free, pinned[i].pin) - 1
			places[free] = &pinned[i]
		}
	}
	keeps := func(x ruled, place int) bool {
		for i := range caps {
			c := &caps[i]
			if place >= c.First {
				continue
			}
			all := []ruled{x}
			for _, other := range places[:min(c.First, len(places))] {
				if other != nil {
					all = append(all, *other)
				}
			}
			if under(c, all)[x.category] > c.Most {
				return false
			}
		}
		return true
	}
	for place := range places {
		if places[place] != nil {
			continue
		}
		k := max(0, slices.IndexFunc(rest, func(x ruled) bool { return keeps(x, place) }))
		x := rest[k]
		places[place], rest = &x, slices.Delete(rest, k, k+1)
	}
	var shown []ruled
	for _, x := range places {
		shown = append(shown, *x)
	}
	return shown
}
