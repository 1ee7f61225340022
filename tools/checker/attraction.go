package checker

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ranker-worker/ranker-worker/config"
)

// attracting are the policies that maximise payoff per impression.
var attracting = []config.Policy{config.MOSS, "optimistic", "thompson", "klucb", "greedy", config.EpsilonGreedy, config.Robust}

// endings counts ended impressions with an item on top, by whether a selection came.
type endings struct{ with, without int64 }

func (e endings) String() string {
	return fmt.Sprintf("%d with a selection, %d without", e.with, e.without)
}

// attracts reports whether a learner maximises payoff per impression under all configurations.
func (lf *learnerFold) attracts() bool {
	return lf.always && lf.given && lf.reset == nil && lf.imported == nil && !slices.ContainsFunc(lf.variants, func(v *config.Learner) bool {
		return v.Delay != config.Direct || !slices.Contains(attracting, v.Policy)
	})
}

func (lf *learnerFold) followAttraction(f *fold) {
	if f.selects && lf.attracts() {
		lf.attraction = map[uint32]endings{}
	}
}

// attracted counts an impression that ended with the selection of the item at a position, -1 for none. A selection below
// the next leader says nothing about the item on top, and so does an impression without a known order of utilities.
func (lf *learnerFold) attracted(l *life, at int) {
	if lf.attraction == nil || len(l.ranks) == 0 || l.offset < lf.item(l.items[0]).ended {
		return
	}
	for k := 1; k <= at; k++ {
		if l.ranks[k] > l.ranks[0] {
			return
		}
	}
	e := lf.attraction[l.items[0]]
	if at < 0 {
		e.without++
	} else {
		e.with++
	}
	lf.attraction[l.items[0]] = e
}

// checkAttraction compares the stored counts of impressions with those of the log.
func (lf *learnerFold) checkAttraction(f *fold) {
	if lf.attraction == nil || f.partial || lf.unknown || lf.loose {
		f.out.open(attractionEnded)
		return
	}
	got := map[uint32]endings{}
	for number, e := range lf.stored.attraction {
		got[lf.stored.fold(uint32(number))] = e
	}
	for item := range lf.attraction {
		if _, stored := got[item]; !stored {
			got[item] = endings{}
		}
	}
	for item, e := range got {
		if int(item) < len(lf.items) && lf.items[item].unknown {
			f.out.open(attractionEnded)
			continue
		}
		equal(f.out, attractionEnded, lf.name+": "+f.items.name(item)+" on top", lf.attraction[item], e)
	}
}

// loadAttraction reads an item's counts of impressions that ended with and without a selection.
func (s *storedLearner) loadAttraction(field, value string) error {
	k, err := strconv.ParseInt(field, 10, 31)
	if err != nil || k < 0 {
		return fmt.Errorf("field is no number: %w", err)
	}
	with, without, ok := strings.Cut(value, " ")
	w, err := strconv.ParseInt(with, 10, 64)
	o, errOther := strconv.ParseInt(without, 10, 64)
	if !ok || err != nil || errOther != nil || w < 0 || o < 0 || w+o == 0 {
		return errors.New("value is not two numbers from 0 on, of which one is above 0")
	}
	if s.attraction == nil {
		s.attraction = map[int64]endings{}
	}
	s.attraction[k] = endings{w, o}
	return nil
}
