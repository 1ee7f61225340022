package delay

import (
	"github.com/ranker-worker/ranker-worker/policy/contextual"
	"github.com/ranker-worker/ranker-worker/policy/features"
)

// Cause is a component of the variance of payoffs.
type Cause uint8

// The causes: chance within item and context, features, the item's category, the item, and the cell (item and user group).
const (
	OfChance Cause = iota
	OfFeatures
	OfCategory
	OfItem
	OfCell
	Causes // their number
)

// String returns its name in metrics and reports.
func (c Cause) String() string {
	return [...]string{"payoff", "features", "category", "item", "cell"}[c]
}

// ContextualStatus describes a contextual learner's model over all partitions, as of the last fit.
type ContextualStatus struct {
	Known bool  // payoffs depend on a context; otherwise the rest is empty
	Fits  int64 // made since the process started
	// Payoffs is the number of payoffs in the model, less one for each forgotten item. The partition with the most is the most recent.
	Payoffs int64
	// Deviations are standard deviations of payoffs by cause, in payoff ranges; -1 for a cause that the learner does not model.
	Deviations [Causes]float64
	// Spreads are the spreads of the declared features.
	Spreads []Spread
	// Groups are the present divisions of the clock and of items' age.
	Groups []Groups
	// Since is the time in Unix milliseconds from which payoffs count, by start of their selections; 0 if all count.
	Since int64
}

// Groups is the number of groups into which the learner divides the day ("hour"), the week ("weekday") or items' ages ("age"); 1 if
// it does not divide. Data choose the clock's; those of age are fixed.
type Groups struct {
	Of string
	N  int
}

// divisions returns Groups of the declared clock and age.
func (u *contexts) divisions() (all []Groups) {
	clock, now := u.met.space.Clock(), &u.choices[u.chosen]
	if clock.Hour {
		all = append(all, Groups{"hour", now.Hours})
	}
	if clock.Weekday {
		all = append(all, Groups{"weekday", now.Days})
	}
	if ages := u.dim - u.width; ages > 0 {
		all = append(all, Groups{features.OfAge.String(), ages})
	}
	return all
}

// Spread is a feature's standard deviation over fed payoffs, in halves of its range: 0.58 for a uniform distribution.
type Spread struct {
	Name string
	SD   float64
}

// causes returns the causes of the model's levels, from the finest up.
func (u *contexts) causes() []Cause {
	all := []Cause{OfCell, OfItem, OfCategory}
	if u.segments == 1 {
		all = all[1:]
	}
	return all[:u.model.Levels()]
}

func (u *contexts) status() (s ContextualStatus) {
	s.Known, s.Fits, s.Payoffs = true, u.fits, u.model.Total.N
	for c := range s.Deviations {
		s.Deviations[c] = -1
	}
	s.Deviations[OfChance] = u.model.Deviation(-1)
	if u.dim > 1 {
		s.Deviations[OfFeatures] = u.model.OfFeatures()
	}
	for j := 1; j < u.declared; j++ {
		s.Spreads = append(s.Spreads, Spread{u.names[j], u.model.Spread(j)})
	}
	for level, c := range u.causes() {
		s.Deviations[c] = u.model.Deviation(level)
	}
	s.Groups = u.divisions()
	if since := u.model.Since(); since != contextual.Always {
		s.Since = since
	}
	return s
}

// Coefficient is a payoff's expected change, in payoff ranges, from the middle of a feature's range to its end; SD its standard error.
type Coefficient struct {
	Name      string
	Value, SD float64
}

// coefficients returns one per feature, in their order.
func (u *contexts) coefficients() []Coefficient {
	all := make([]Coefficient, u.dim)
	for j := range all {
		all[j].Name = u.names[j]
		all[j].Value, all[j].SD = u.model.Coefficient(j)
	}
	return all
}

// ContextReporting is a learner whose payoffs may depend on more than the item.
type ContextReporting interface {
	// Coefficients returns those of all features, the intercept first; nil where payoffs depend on the item alone.
	Coefficients() []Coefficient
}

var (
	_ ContextReporting = (*Direct)(nil)
	_ ContextReporting = (*Preferring)(nil)
)

func (d *Direct) Coefficients() []Coefficient {
	if d.contexts == nil {
		return nil
	}
	return d.contexts.coefficients()
}

// Coefficients implements ContextReporting, by the inner learner.
func (p *Preferring) Coefficients() []Coefficient {
	if inner, ok := p.inner.(ContextReporting); ok {
		return inner.Coefficients()
	}
	return nil
}
