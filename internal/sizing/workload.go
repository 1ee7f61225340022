package sizing

import (
	"errors"
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/learners"
	"github.com/ranker-worker/ranker-worker/policy"
)

// Workload is the traffic of a group of workers, and the settings that costs depend on.
type Workload struct {
	Rate       float64 // impressions a second, of the whole group
	Candidates int     // of one impression
	Items      int     // of the catalogue; all are met in each partition
	IDBytes    int     // of an impression id, as text
	ItemBytes  int     // of an item's name
	Selected   float64 // share of the impressions from which something is selected, 0 to 1
	Paid       float64 // share of the selections that are paid, 0 to 1
	// PaidAfter is the mean delay of a payoff after its impression.
	PaidAfter time.Duration

	PayoffHorizon    time.Duration
	SelectionTimeout time.Duration // 0 without a selections topic: impressions wait for payoffs
	ParkingTime      time.Duration
	// Remember is the time an ended impression is remembered; config.UntilHorizon: until its payoff deadline and the parking time.
	Remember           time.Duration
	CheckpointInterval time.Duration
	Partitions         int
	Workers            int
	Learner            Learner
}

// Learner holds the deciding learner's properties that costs depend on.
type Learner struct {
	// Fields stored for each candidate of a pending impression, besides its item.
	Propensities bool // selection probabilities
	Expected     bool // expected payoffs
	Ranks        bool // the order of utilities, unless only given
	Whole        bool // all of that order, not the leaders alone
	Undecided    bool // and its uncertain ranks

	Ages    bool // silence: ages
	Tops    bool // impressions count for the item on top, even without a selection
	History bool // drifting means, by buckets of time: robust, or drift
	Packed  bool // the history takes a few bytes a bucket: robust
	Pairs   bool // utilities: sorted
	Sum     bool // a selection's payoffs are added up until its deadline
}

// Validate returns all faults.
func (w *Workload) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(w.Rate > 0 && w.Rate <= 1e9, "a rate of %v impressions a second: it has to be above 0, and at most a billion", w.Rate)
	check(w.Candidates >= 1 && w.Candidates <= 100_000, "%d candidates: there can be 1 to 100,000", w.Candidates)
	check(w.Items >= w.Candidates && w.Items <= 1e9, "%d items: there have to be as many as candidates, and at most a billion", w.Items)
	check(w.IDBytes >= 1 && w.IDBytes <= 1024, "ids of %d bytes: they have 1 to 1,024", w.IDBytes)
	check(w.ItemBytes >= 1 && w.ItemBytes <= 1024, "items' names of %d bytes: they have 1 to 1,024", w.ItemBytes)
	check(w.Selected >= 0 && w.Selected <= 1, "%v of the impressions are selected from: the share lies between 0 and 1", w.Selected)
	check(w.Paid >= 0 && w.Paid <= 1, "%v of the selections are paid: the share lies between 0 and 1", w.Paid)
	check(w.PayoffHorizon > 0, "a payoff horizon of %v: it has to be above 0", w.PayoffHorizon)
	check(w.PaidAfter >= 0 && w.PaidAfter <= w.PayoffHorizon, "payoffs come after %v: that lies between 0 and the payoff horizon, %v", w.PaidAfter, w.PayoffHorizon)
	check(w.SelectionTimeout >= 0 && w.SelectionTimeout <= w.PayoffHorizon, "a selection timeout of %v: it lies between 0 and the payoff horizon, %v",
		w.SelectionTimeout, w.PayoffHorizon)
	check(w.ParkingTime >= 0, "a parking time of %v", w.ParkingTime)
	check(w.Remember == config.UntilHorizon || w.Remember >= w.ParkingTime, "impressions are remembered for %v: it cannot be below the parking time, %v", w.Remember, w.ParkingTime)
	check(w.CheckpointInterval > 0, "a checkpoint interval of %v: it has to be above 0", w.CheckpointInterval)
	check(w.Partitions >= 1 && w.Partitions <= 1e6, "%d partitions: there can be 1 to a million", w.Partitions)
	check(w.Workers >= 1 && w.Workers <= w.Partitions, "%d workers: there can be one to as many as partitions, %d", w.Workers, w.Partitions)
	return errors.Join(faults...)
}

// IDs are the numbers of impression ids stored at a time, by kind of entry.
type IDs struct {
	Undecided float64 // may still be selected from
	Selected  float64 // selections in flight
	Ended     float64 // remembered, to recognise duplicates
}

func (n IDs) All() float64 { return n.Undecided + n.Selected + n.Ended }

// IDs returns arrivals per second times their duration (Little's law). Selections count as immediate.
func (w *Workload) IDs() IDs {
	whole := w.PayoffHorizon + w.ParkingTime
	paidAfter := w.PaidAfter
	if w.Learner.Sum {
		paidAfter = w.PayoffHorizon
	}
	var n IDs
	end := func(rate float64, after time.Duration) {
		remembered := w.Remember
		if remembered == config.UntilHorizon {
			remembered = whole - after
		}
		n.Ended += rate * remembered.Seconds()
	}
	selected := w.Selected
	if w.SelectionTimeout == 0 {
		selected = 1 // a payoff's item is the selection
		paid := w.Rate * w.Selected * w.Paid
		n.Undecided = paid*paidAfter.Seconds() + (w.Rate-paid)*w.PayoffHorizon.Seconds()
		end(paid, paidAfter)
		end(w.Rate-paid, w.PayoffHorizon)
		return n
	}
	unselected := w.Rate * (1 - selected)
	paid, never := w.Rate*selected*w.Paid, w.Rate*selected*(1-w.Paid)
	n.Undecided = unselected * w.SelectionTimeout.Seconds()
	n.Selected = paid*paidAfter.Seconds() + never*w.PayoffHorizon.Seconds()
	end(unselected, w.SelectionTimeout)
	end(paid, paidAfter)
	end(never, w.PayoffHorizon)
	return n
}

func (w *Workload) selections() float64 {
	if w.SelectionTimeout == 0 {
		return 0
	}
	return w.Rate * w.Selected
}

func (w *Workload) payoffs() float64 { return w.Rate * w.Selected * w.Paid }

// owned returns the number of partitions of the busiest worker.
func (w *Workload) owned() int { return (w.Partitions + w.Workers - 1) / w.Workers }

// Standard returns the reference workload: 1,000 impressions a second, of 20 candidates out of 200,000 items. A twentieth is
// selected from, and a fifth of the selections is paid. The learner has defaults and a horizon of 7 days.
func Standard() *Workload {
	return &Workload{
		Rate: 1000, Candidates: 20, Items: 200_000, IDBytes: 36, ItemBytes: 12, Selected: 0.05, Paid: 0.2, PaidAfter: 84 * time.Hour,
		PayoffHorizon: 168 * time.Hour, SelectionTimeout: 30 * time.Minute, ParkingTime: time.Hour, Remember: 24 * time.Hour,
		CheckpointInterval: 100 * time.Millisecond, Partitions: 6, Workers: 1, Learner: Learner{Ages: true, Tops: true},
	}
}

// Configure sets the fields that a configuration and one of its learners determine.
func (w *Workload) Configure(c *config.Config, l *config.Learner) {
	w.PayoffHorizon, w.SelectionTimeout = l.PayoffHorizon, l.SelectionTimeout
	w.PaidAfter = l.PayoffHorizon / 2
	w.ParkingTime, w.Remember, w.CheckpointInterval = c.Join.ParkingTime, c.Join.Remember, c.Limits.CheckpointInterval
	k := l.Policy.Spec()
	robust := l.Policy == config.Robust
	w.Learner = Learner{
		Propensities: k.IsAdversarial(), Expected: robust, Undecided: l.Utilities == config.Sorted,
		Ranks: needsRanks(k) || l.Utilities != config.Given,
		Whole: k.HasLosses() || l.Utilities != config.Given,
		Tops:  tops(l),
		Ages:  l.Silence == config.Ages, History: robust || l.Drift > 0, Packed: robust, Pairs: l.Utilities == config.Sorted, Sum: l.Aggregate == config.Sum,
	}
}

// needsRanks reports whether the policy learns from a selection's place in the order of utilities.
func needsRanks(k *policy.Spec) bool { return k.NeedsWindows() }

// tops reports whether the learner maximises payoff per impression. The worker asks the learner itself.
func tops(l *config.Learner) bool {
	made, err := learners.New(l)
	return err == nil && made().Needs().Ranking
}
