package delay

import (
	"github.com/ranker-worker/ranker-worker/policy/contextual"
	"github.com/ranker-worker/ranker-worker/policy/features"
)

// Cause is what payoffs differ by.
type Cause uint8

// The causes: payoffs of one item in one context differ by chance; features make them differ, items' categories do, items, and cells, which
// are an item for the users of one segment.
const (
	OfChance Cause = iota
	OfFeatures
	OfCategory
	OfItem
	OfCell
	Causes // how many there are
)

// String is the name that metrics and reports have for it.
func (c Cause) String() string {
	return [...]string{"payoff", "features", "category", "item", "cell"}[c]
}

// ContextualStatus is what a learner takes payoffs to depend on, for people and metrics. It is of all partitions, as far as they are heard of,
// and as of the last fit.
type ContextualStatus struct {
	Known bool  // payoffs depend on a context; else the rest says nothing
	Fits  int64 // made since the process started
	// Payoffs are how many tell of it, less one for each item that was forgotten. Of several partitions, the one with the most is up to
	// date.
	Payoffs int64
	// Deviations are by how much payoffs differ by each cause, in payoff ranges; -1 where the learner does not look at it.
	Deviations [Causes]float64
	// Spreads say how much of its range each declared feature uses.
	Spreads []Spread
	// Groups say how finely the learner divides what it declares of the clock and of items' age.
	Groups []Groups
	// Since is the time, in milliseconds since 1970, from which on payoffs count, by when their selections began; 0 where all count.
	Since int64
}

// Groups is the number of groups that a learner divides the day ("hour"), the week ("weekday") or items' ages ("age") into at present; 1
// where it does not. Payoffs choose those of the clock; those of the age stay.
type Groups struct {
	Of string
	N  int
}

// divisions returns what a learner declares of the clock and of items' age.
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

// Spread is the standard deviation of a feature over the payoffs that were fed, in halves of its range: 0.58 where all of the range is
// used alike.
type Spread struct {
	Name string
	SD   float64
}

// causes are those of the model's levels, from the finest up.
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

// Coefficient is by how much a payoff is expected to change with a feature that goes from the middle of its range to its end, in
// normalised units, and the deviation of that.
type Coefficient struct {
	Name      string
	Value, SD float64
}

// coefficients are all of them, in the order of the features.
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
	// Coefficients are those of all features, the intercept first; nil where payoffs depend on the item alone.
	Coefficients() []Coefficient
}

var (
	_ ContextReporting = (*Direct)(nil)
	_ ContextReporting = (*Preferring)(nil)
)

// Coefficients implements Depending.
func (d *Direct) Coefficients() []Coefficient {
	if d.users == nil {
		return nil
	}
	return d.users.coefficients()
}

// Coefficients implements Depending, as the inner learner does.
func (p *Preferring) Coefficients() []Coefficient {
	if inner, ok := p.inner.(ContextReporting); ok {
		return inner.Coefficients()
	}
	return nil
}
