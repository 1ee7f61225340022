package partition

import "github.com/ranker-worker/ranker-worker/stream/event"

// LearnerRefusal says what is wrong with an impression for the learner that ranks it; nil where nothing is. The learner is empty
// where there is none of the name that the impression gives, or no default where it gives none; findsUtilities tells whether it
// finds the order of utilities itself. Who takes records in before they are in the log asks it too.
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

// PayoffRefusal says what is wrong with a payoff for a worker with or without a selections topic; nil where nothing is. Who takes
// records in before they are in the log asks it too.
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
