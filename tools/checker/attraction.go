package checker

import (
	"fmt"
	"slices"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// attracting are the policies that maximise payoff per impression.
var attracting = []config.Policy{config.MOSS, "optimistic", "thompson", "klucb", "greedy", config.EpsilonGreedy, config.Robust}

// endings counts ended impressions with an item on top, by whether a selection came.
type endings struct{ with, without int64 }

func (e *endings) add(selected bool) {
	if selected {
		e.with++
	} else {
		e.without++
	}
}

func (e endings) String() string {
	return fmt.Sprintf("%d with a selection, %d without", e.with, e.without)
}

// ending is an ended impression that counts for the item on top.
type ending struct {
	began    event.Millis
	selected bool
}

// attracts reports whether a learner maximises payoff per impression under all configurations.
func (lf *learnerFold) attracts() bool {
	return lf.always && lf.reset == nil && lf.imported == nil && !slices.ContainsFunc(lf.variants, func(v *config.Learner) bool {
		return v.Delay != config.Direct || !slices.Contains(attracting, v.Policy)
	})
}

func (lf *learnerFold) followAttraction(f *fold) {
	if f.selects && lf.attracts() {
		lf.attraction = map[uint32][]ending{}
	}
}

// attracted counts an impression that ended with the selection of the item at a position, -1 for none. A selection below
// the next leader says nothing about the item on top, and so does an impression without a known order of utilities.
func (lf *learnerFold) attracted(l *life, at int) {
	if lf.attraction == nil || len(l.ranks) == 0 || len(l.undecided) > 0 || l.offset < lf.item(l.items[0]).ended {
		return
	}
	for k := 1; k <= at; k++ {
		if l.ranks[k] > l.ranks[0] {
			return
		}
	}
	lf.attraction[l.items[0]] = append(lf.attraction[l.items[0]], ending{l.began, at >= 0})
}

// checkAttraction compares the stored counts of impressions with those of the log.
func (lf *learnerFold) checkAttraction(f *fold) {
	if !lf.determined(f, lf.attraction != nil && !lf.loose, attractionEnded) {
		return
	}
	falls, item, watched := &lf.stored.falls, lf.stored.fold(uint32(lf.stored.falls.item)), endings{}
	want, got := map[uint32]endings{}, byFold(&lf.stored, lf.stored.attraction)
	for top, ended := range lf.attraction {
		for _, x := range ended {
			if x.began < falls.begins { // a fall was found since then
				continue
			}
			e := want[top]
			e.add(x.selected)
			want[top] = e
			if top == item && x.began < falls.since {
				watched.add(x.selected)
			}
		}
	}
	for _, top := range certain(f, lf, attractionEnded, lf.attraction, got) {
		equal(f.out, attractionEnded, lf.name+": "+f.items.name(top)+" on top", want[top], got[top])
	}
	if lf.kept == nil && !lf.doubtful(item) { // else the item may have ended
		equal(f.out, attractionEnded, lf.name+": earlier impressions of the watched item", watched, falls.earlier)
	}
}

// storedFalls are the times from which impressions count and are later ones, and the earlier ones of an item.
type storedFalls struct {
	begins, since event.Millis
	item          int64
	earlier       endings
}
