package experiment

// Group sums the payoffs of a user group's impressions in a period, in one partition or in all.
type Group struct {
	N int64 // impressions
	X int64 // their payoffs, in units of 2⁻³⁰
}

func (g Group) Add(o Group) Group { return Group{g.N + o.N, g.X + o.X} }

// Groups are a period's GroupCount groups, by number.
type Groups []Group

// Add adds an impression's sums: Unit at its ranking, and Of its payoff when it ends.
func (g Groups) Add(group int, x Counts) { g[group] = g[group].Add(Group{x.N, x.X}) }

// Fold adds a period's groups, over all partitions, to the totals: a cohort whose units are groups and whose payoffs are the groups' means. They
// have no covariates, since an arm can change with which impressions its users come back.
// The period is over once all partitions have expired the impressions that began in it.
func (e *Experiment) Fold(t Totals, period int64, groups Groups) {
	cohort := make([]Counts, len(e.Arms))
	var unit [24]byte
	for k, g := range groups {
		if g.N == 0 {
			continue
		}
		arm := e.Arm(AppendUnit(unit[:0], k, period, e.Period != 0))
		cohort[arm] = cohort[arm].Add(Unit(1, 0)).Add(Of(float64(g.X)/float64(g.N)/perPayoff, 0))
	}
	t.Fold(cohort)
}
