package sizing

import (
	"errors"
	"fmt"
	"time"

	"github.com/ranker-worker/ranker-worker/config"
)

// Workload is the traffic of a group of workers, and the settings that its costs depend on.
type Workload struct {
	Rate       float64 // impressions a second, of the whole group
	Candidates int     // of one impression
	Items      int     // of the catalogue; all are met in each partition
	IDBytes    int     // of an impression id, as text
	ItemBytes  int     // of an item's name
	Selected   float64 // share of the impressions from which something is selected, 0 to 1
	Paid       float64 // share of the selections that are paid, 0 to 1
	// PaidAfter is how long after its impression a payoff comes, in the mean.
	PaidAfter time.Duration

	PayoffHorizon    time.Duration
	SelectionTimeout time.Duration // 0: there is no selections topic, each impression waits for its payoff
	ParkingTime      time.Duration
	// Remember is how long an impression is remembered once it has ended; config.UntilHorizon: until its payoff deadline and the parking
	// time after it.
	Remember           time.Duration
	CheckpointInterval time.Duration
	Partitions         int
	Workers            int
	Learner            Learner
}

// Learner holds the properties of the deciding learner that the costs depend on.
type Learner struct {
	// Fields stored for each candidate of a pending impression, besides its item.
	Propensities bool // how likely each was to be selected
	Expected     bool // expected payoffs
	Ranks        bool // the order of their utilities, where it is not only given
	Undecided    bool // and which of that was not certain

	// Shared: a process keeps all partitions' statistics once; otherwise each machine has its own copy.
	Shared bool

	Ages    bool // silence: ages
	Tops    bool // impressions count for the item on top, also those without a selection
	History bool // means that move, by blocks of time: robust, or drift
	Pairs   bool // utilities: sorted
	Sum     bool // a selection's payoffs are added up until its deadline
}

// Validate reports every fault.
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
	Undecided float64 // whoever was shown it may still select
	Selected  float64 // its payoff is awaited
	Ended     float64 // remembered, so that a repeated record is recognised
}

// All of them.
func (n IDs) All() float64 { return n.Undecided + n.Selected + n.Ended }

// IDs follow from Little's law: how many come in a second, times how long each stays as it is. A selection comes at once here; it takes
// some seconds, which nobody counts.
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

// Selections and Payoffs are records a second.
func (w *Workload) selections() float64 {
	if w.SelectionTimeout == 0 {
		return 0
	}
	return w.Rate * w.Selected
}

func (w *Workload) payoffs() float64 { return w.Rate * w.Selected * w.Paid }

// owned is how many partitions the busiest worker has.
func (w *Workload) owned() int { return (w.Partitions + w.Workers - 1) / w.Workers }
