package delay

import (
	"github.com/ranker-worker/ranker-worker/policy/contextual"
	"github.com/ranker-worker/ranker-worker/policy/features"
)

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

// coefficients returns one per feature, in their order.
func (u *contexts) coefficients() []Coefficient {
	all := make([]Coefficient, u.dim)
	for j := range all {
		all[j].Name = u.names[j]
		all[j].Value, all[j].SD = u.model.Coefficient(j)
	}
	return all
}
