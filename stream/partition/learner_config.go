package partition

import (
	"errors"
	"fmt"
	"math"

	"github.com/ranker-worker/ranker-worker/delay"
)

var errConfig = errors.New("partition: configuration")

// LearnerConfig is the configuration of one learner.
type LearnerConfig struct {
	Name             string
	Default          bool // takes records that name no learner
	PolicyName       string
	DelayName        string
	Fingerprint      string  // settings that must match the stored ones
	PayoffMin        float64 // raw units: the learner sees PayoffMin as 0
	PayoffMax        float64 // and PayoffMax as 1
	PayoffHorizon    int64
	SelectionTimeout int64 // 0 without a selections topic
	// ItemRetention is how long an item is kept that no impression carries, in milliseconds of event time; 0: for ever. It is at least
	// PayoffHorizon, and needs a learner that can forget (delay.Forgetting).
	ItemRetention    int64
	ExpiryDefault    *float64 // payoff assumed for a selection that was never paid, in raw units; nil: none
	RefuseOutOfRange bool     // a single payoff outside the range is a dead letter and ends its impression; else it is clamped
	AggregateSum     bool     // a selection's payoffs are added up until the deadline; else the first counts
	Seed             uint64
	// FindsUtilities means that the learner finds the order of utilities itself, and ignores those of impressions.
	FindsUtilities bool
	Context        *Context // nil: items alone
	Caps           []Cap
	New            func() delay.Learner
}

func (c *LearnerConfig) check() error {
	switch {
	case c.Name == "":
		return errors.New("it has no name")
	case c.New == nil:
		return errors.New("nothing makes it")
	case !(c.PayoffMin < c.PayoffMax) || math.IsInf(c.PayoffMax-c.PayoffMin, 0):
		return fmt.Errorf("payoff range [%v, %v]", c.PayoffMin, c.PayoffMax)
	case c.ItemRetention != 0 && c.ItemRetention < c.PayoffHorizon:
		return fmt.Errorf("items are kept for %d ms, and can be paid for %d ms", c.ItemRetention, c.PayoffHorizon)
	case c.PayoffHorizon < 0 || c.SelectionTimeout < 0:
		return errors.New("a negative time")
	case c.ExpiryDefault != nil && !(c.PayoffMin <= *c.ExpiryDefault && *c.ExpiryDefault <= c.PayoffMax):
		return fmt.Errorf("default payoff %v lies outside [%v, %v]", *c.ExpiryDefault, c.PayoffMin, c.PayoffMax)
	}
	return nil
}
