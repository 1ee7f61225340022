package sizing

import (
	"time"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/learners"
	"github.com/ranker-worker/ranker-worker/policy"
)

// Standard returns the reference workload: 1,000 impressions a second, of 20 candidates out of 200,000 items. A twentieth is
// selected from, and a fifth of the selections is paid. The learner has defaults and a horizon of 7 days.
func Standard() *Workload {
	return &Workload{
		Rate: 1000, Candidates: 20, Items: 200_000, IDBytes: 36, ItemBytes: 12, Selected: 0.05, Paid: 0.2, PaidAfter: 84 * time.Hour,
		PayoffHorizon: 168 * time.Hour, SelectionTimeout: 30 * time.Minute, ParkingTime: time.Hour, Remember: 24 * time.Hour,
		CheckpointInterval: 100 * time.Millisecond, Partitions: 6, Workers: 1, Learner: Learner{Shared: true, Ages: true, Tops: true},
	}
}

// Configure sets the fields that a configuration and one of its learners determine.
func (w *Workload) Configure(c *config.Config, l *config.Learner) {
	w.PayoffHorizon, w.SelectionTimeout = l.PayoffHorizon, l.SelectionTimeout
	w.PaidAfter = l.PayoffHorizon / 2
	w.ParkingTime, w.Remember, w.CheckpointInterval = c.Join.ParkingTime, c.Join.Remember, c.Limits.CheckpointInterval
	k := l.Policy.Kind()
	robust := l.Policy == config.Robust
	w.Learner = Learner{
		Propensities: k.IsAdversarial(), Expected: robust, Undecided: l.Utilities == config.Sorted,
		Ranks:  needsRanks(k) || l.Utilities != config.Given,
		Shared: shares(l, k),
		Tops:   tops(l),
		Ages:   l.Silence == config.Ages, History: robust || l.Drift > 0, Packed: robust, Pairs: l.Utilities == config.Sorted, Sum: l.Aggregate == config.Sum,
	}
}

// needsRanks reports whether the policy learns from a selection's place in the order of utilities.
func needsRanks(k *policy.Spec) bool { return k.NeedsWindows() }

// tops reports whether the learner maximises payoff per impression. The worker asks the learner itself.
func tops(l *config.Learner) bool {
	made, err := learners.New(l)
	return err == nil && made().Needs().Ranking
}

// shares reports whether the learner's pooled state is kept once per process (delay.Sharing).
func shares(l *config.Learner, k *policy.Spec) bool {
	direct := k.Rank != nil && l.Delay == config.Direct && l.Silence != config.Waits
	return (direct || l.Policy == config.Robust) && l.Utilities == config.Given
}
