package experiment

// Group sums the payoffs of a user group's impressions in a period, in one partition or in all.
type Group struct {
	N int64 // impressions
	X int64 // their payoffs, in units of 2⁻³⁰
	Z int64 // their covariates, likewise
}

func (g Group) Add(o Group) Group { return Group{g.N + o.N, g.X + o.X, g.Z + o.Z} }

// Groups are a period's GroupCount groups, by number.
type Groups []Group

// Add adds an impression's sums: Unit at its ranking, and Of its payoff when it ends.
func (g Groups) Add(group int, x Counts) { g[group] = g[group].Add(Group{x.N, x.X, x.Z}) }

// Fold adds a period's groups, over all partitions, to the totals: a cohort whose units are groups. Payoffs and covariates are the groups' means.
// The period is over once all partitions have expired the impressions that began in it.
func (e *Experiment) Fold(t Totals, period int64, groups Groups) {
	cohort := make([]Counts, len(e.Arms))
	var unit [24]byte
	for k, g := range groups {
		if g.N == 0 {
			continue
		}
		arm := e.Arm(AppendUnit(unit[:0], k, period, e.Period != 0))
		n := float64(g.N) * perPayoff
		z := float64(g.Z) / n
		cohort[arm] = cohort[arm].Add(Unit(1, z)).Add(Of(float64(g.X)/n, z))
	}
	t.Fold(cohort)
}
