package partition

import (
	"fmt"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// LearnerRefusal returns the fault of an impression for the learner that ranks it, nil if there is none. learner is "" if none has the
// impression's name, or none is the default. findsUtilities says that it finds the order of utilities itself. Package serve calls it too.
func LearnerRefusal(imp *event.Impression, learner string, findsUtilities bool) *event.Fault {
	switch {
	case learner == "" && len(imp.Learner) == 0:
		return inField("/learner", faultf(event.UnknownLearner, "no learner is named, and none is the default"))
	case learner == "":
		return inField("/learner", faultf(event.UnknownLearner, "no learner %.64q is configured", imp.Learner))
	case !imp.HasUtilities && !findsUtilities:
		return inField("/candidates/0/utility", faultf(event.NoUtilities, "learner %q needs the candidates' utilities", learner))
	}
	return nil
}

// CapsRefusal returns the fault of an impression whose categories cannot be read, for a learner with caps. Package serve calls it too.
func CapsRefusal(imp *event.Impression, caps []Cap) *event.Fault {
	if len(caps) == 0 {
		return nil
	}
	return imp.Context.Fault
}

// PayoffRefusal returns the fault of a payoff without an item for a worker without a selections topic, else nil. Package serve calls it
// too.
func PayoffRefusal(p *event.Payoff, hasSelections bool) *event.Fault {
	if len(p.Item) == 0 && !hasSelections {
		return itemMissing()
	}
	return nil
}

func itemMissing() *event.Fault {
	return inField("/item", faultf(event.MissingItem, "a payoff must name its item, since there is no selections topic"))
}

func inField(pointer string, f *event.Fault) *event.Fault {
	f.Pointer = pointer
	return f
}

func faultf(r event.Reason, format string, args ...any) *event.Fault {
	return &event.Fault{Reason: r, Detail: fmt.Sprintf(format, args...)}
}
