package simulate

// Ledger sums the regret of rankings, in mean payoffs with the windows drawn. The zero value is empty. It is not safe for concurrent use.
type Ledger struct {
	// Hindsight are mean payoffs by item number that define the best permutation; nil uses each impression's. Where payoffs change,
	// the best fixed order follows their means over the whole time.
	Hindsight []float64

	Impressions int
	// Regret is Σ (mean of the best permutation's selection − mean of the actual one).
	Regret float64
	// RegretUtilityOrder is Regret for rankings by utility.
	RegretUtilityOrder float64
	// Misaligned counts impressions whose highest utility does not have the largest mean payoff.
	Misaligned int
	// Payoff, PayoffUtilityOrder and PayoffBest sum the users' payoffs, whether or not their records arrive. They are of actual
	// selections, of the order by utility, and of the best permutation by means, with the same luck.
	Payoff, PayoffUtilityOrder, PayoffBest float64
}

// Add counts an impression whose user selected the candidate at this position.
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

// Misalignment returns the share of misaligned impressions; 0 before the first.
func (l *Ledger) Misalignment() float64 {
	if l.Impressions == 0 {
		return 0
	}
	return float64(l.Misaligned) / float64(l.Impressions)
}
