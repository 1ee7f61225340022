package simulate

// Ledger adds up what rankings cost their users' owner. Regret is counted in mean payoffs, with the windows that were
// really drawn: the noise of the payoffs is left out. The zero value is empty. Not for several goroutines at a time.
type Ledger struct {
	// Hindsight are the mean payoffs by item number by which the best permutation goes; nil: those of each impression.
	// Where payoffs change, the best order of the items that stays as it is goes by their means over the whole time.
	Hindsight []float64

	Impressions int
	// Regret is Σ (mean of what the best permutation makes this user select − mean of what was selected).
	Regret float64
	// RegretUtilityOrder is the same sum had the same impressions been ranked by utility, the highest first.
	RegretUtilityOrder float64
	// Misaligned counts the impressions whose candidate of highest utility is not one of the largest mean payoff.
	Misaligned int
	// Payoff, PayoffUtilityOrder and PayoffBest add up what the users pay, whether or not the record of it arrives: for
	// what was selected, for the order by utility, and for the best permutation (by means), all with the same luck.
	Payoff, PayoffUtilityOrder, PayoffBest float64
}

// Add counts one impression whose user selected the candidate at this position.
func (l *Ledger) Add(im *Impression, selected int) {
	by := im.Means
	if l.Hindsight != nil {
		by = make([]float64, len(im.Items))
		for k, item := range im.Items {
			by[k] = l.Hindsight[item]
		}
	}
	_, bestAt := Best(im.Candidates, by, im.Window)
	best := im.Means[bestAt]
	favourite := Favourite(im.Candidates) // shown first, it is selected whatever the window
	l.Impressions++
	l.Regret += best - im.Means[selected]
	l.RegretUtilityOrder += best - im.Means[favourite]
	for _, mean := range im.Means {
		if mean > im.Means[favourite] {
			l.Misaligned++
			break
		}
	}
	l.Payoff += im.Payoffs[selected]
	l.PayoffUtilityOrder += im.Payoffs[favourite]
	l.PayoffBest += im.Payoffs[bestAt]
}

// Misalignment is the share of misaligned impressions; 0 before the first.
func (l *Ledger) Misalignment() float64 {
	if l.Impressions == 0 {
		return 0
	}
	return float64(l.Misaligned) / float64(l.Impressions)
}
