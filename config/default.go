package config

import (
	"time"

	"github.com/ranker-worker/ranker-worker/policy"
)

// Defaults is the configuration of a file that says nothing: not yet a valid one, for it has no brokers, no Redis
// and no learner.
func Defaults() Config {
	return Config{
		Kafka: Kafka{
			Group: "ranker",
			Start: Latest,
			Topics: Topics{Impressions: "impressions", Selections: "selections", Payoffs: "payoffs", Rankings: "rankings",
				DLQSuffix: ".dlq"},
		},
		HTTP:   HTTP{Listen: "127.0.0.1:9108"},
		Log:    Log{Level: "info", Format: "text"},
		Join:   Join{ParkingTime: time.Hour, MaxParked: 100_000, MaxParkedBytes: 64 << 20},
		Limits: Limits{MaxCandidates: 10_000, MaxRecordBytes: 1 << 20, CheckpointInterval: 100 * time.Millisecond},
	}
}

// defaultSelectionTimeout is cut to the payoff horizon where that is shorter.
const defaultSelectionTimeout = 30 * time.Minute

// DefaultLearner is a learner of which the file gives only the name and payoffs.
func DefaultLearner(name string, payoffs Payoffs) Learner {
	l := Learner{
		Name:             name,
		Payoffs:          payoffs,
		Policy:           MOSS,
		Radius:           SubGaussian,
		Sigma:            0.5, // payoffs in [0,1] are ½-sub-Gaussian whatever their distribution (Hoeffding)
		Prior:            Prior{Kind: policy.EmpiricalPrior},
		Delta:            Delta{Value: 0.05},
		MaxInstances:     1,
		LossIndex:        ByItem,
		Eta:              Eta{Auto: true},
		Windows:          Windows{Max: 100},
		PayoffRange:      Range{Min: 0, Max: 1},
		PayoffHorizon:    720 * time.Hour,
		SelectionTimeout: defaultSelectionTimeout,
		Aggregate:        First,
		Utilities:        Given,
		Seed:             1,
	}
	if payoffs == Adversarial {
		l.Policy = FTRL
	}
	l.Delay = l.Policy.DefaultDelay()
	return l
}

// DefaultDelay is what goes with a policy that is configured without.
func (p Policy) DefaultDelay() Delay {
	switch k := p.Kind(); {
	case k == nil:
		return Direct
	case k.IsAdversarial():
		return BOLD
	case k.NotDirect != "":
		return QPMD
	}
	return Direct
}
