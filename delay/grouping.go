package delay

import (
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
)

// grouping pools levels of the clock in the model. A group is an item for users of one segment at one or more levels of the clock;
// its number is item·groups + place. The data choose among the declared clock's groupings whenever variances are learned; at first
// all levels form one group.
type grouping struct {
	levels  int32 // number of levels of the clock
	choices []features.Grouping
	chosen  int
	groups  int32     // number of groups of an item
	members [][]int32 // segments, by place within the item
	place   []int32   // by segment
	mark    func(policy.Item) uint64
}

func newGrouping(s *features.Space) grouping {
	g := grouping{levels: int32(s.Clock().Levels()), choices: s.Clock().Groupings(), place: make([]int32, s.Segments()),
		mark: func(i policy.Item) uint64 { return uint64(i) }}
	g.choose(0)
	return g
}

// choose switches to a grouping.
func (g *grouping) choose(choice int) {
	of := &g.choices[choice]
	g.chosen, g.groups = choice, int32(len(g.place))/g.levels*of.Groups
	g.members = make([][]int32, g.groups)
	for segment := range g.place {
		level := int32(segment) % g.levels
		at := int32(segment)/g.levels*of.Groups + of.Of[level]
		g.place[segment] = at
		g.members[at] = append(g.members[at], int32(segment))
	}
}

// Rules of choosing.
const (
	groupedItems = 512 // about as many items are compared at most
	// worthGroups is the least gain in log likelihood (nats) over one group of all levels, worthChange that over the present.
	worthGroups = 6
	worthChange = 3
)
