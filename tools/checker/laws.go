package checker

// law is one of the laws that are checked. What each says stands in the package's documentation.
type law uint8

const (
	metaFields law = iota
	metaTorn
	metaOffsets
	metaWitness
	metaRankings
	rankingsReadable
	rankingsOrder
	rankingsOnce
	rankingsMissing
	rankingsItems
	rankingsDecision
	rankingsPropensities
	rankingsAdmissible
	rankingsDeadlines
	stepsReadable
	stepsChain
	stepsLead
	accountSum
	accountRead
	accountOutcomes
	accountLearners
	deadLetters
	entriesReadable
	entriesPlaced
	entriesLost
	entriesPhantom
	entriesDecision
	entriesOutcome
	entriesEarly
	entriesSelection
	entriesPayoff
	entriesParked
	index
	itemsCatalogue
	itemsSums
	itemsKept
	delayFields
	delayFlights
	silenceFlights
	silenceSettled
	silenceAges
	driftHistory
	contextCells
	contextLinear
	contextCategories
	latelyItems
	latelyLevels
	attractionEnded
	silenceOpen
	qpmdQueue
	qpmdOrder
	qpmdHold
	boldOutstanding
	boldRounds
	boldVectors
	boldWindows
	preferences
	experimentsArm
	experimentsVerdict
	experimentsSums
	entriesArm
	deltas
	laws
)

var lawNames = [laws]string{
	metaFields:           "meta.fields",
	metaTorn:             "meta.torn",
	metaOffsets:          "meta.offsets",
	metaWitness:          "meta.witness",
	metaRankings:         "meta.rankings",
	rankingsReadable:     "rankings.readable",
	rankingsOrder:        "rankings.order",
	rankingsOnce:         "rankings.once",
	rankingsMissing:      "rankings.missing",
	rankingsItems:        "rankings.items",
	rankingsDecision:     "rankings.decision",
	rankingsPropensities: "rankings.propensities",
	rankingsAdmissible:   "rankings.admissible",
	rankingsDeadlines:    "rankings.deadlines",
	stepsReadable:        "steps.readable",
	stepsChain:           "steps.chain",
	stepsLead:            "steps.lead",
	accountSum:           "account.sum",
	accountRead:          "account.read",
	accountOutcomes:      "account.outcomes",
	accountLearners:      "account.learners",
	deadLetters:          "deadletters",
	entriesReadable:      "entries.readable",
	entriesPlaced:        "entries.placed",
	entriesLost:          "entries.lost",
	entriesPhantom:       "entries.phantom",
	entriesDecision:      "entries.decision",
	entriesOutcome:       "entries.outcome",
	entriesEarly:         "entries.early",
	entriesSelection:     "entries.selection",
	entriesPayoff:        "entries.payoff",
	entriesParked:        "entries.parked",
	index:                "index",
	itemsCatalogue:       "items.catalogue",
	itemsSums:            "items.sums",
	itemsKept:            "items.kept",
	delayFields:          "delay.fields",
	delayFlights:         "delay.flights",
	silenceFlights:       "silence.flights",
	silenceSettled:       "silence.settled",
	silenceAges:          "silence.ages",
	driftHistory:         "drift.history",
	contextCells:         "context.cells",
	contextLinear:        "context.linear",
	contextCategories:    "context.categories",
	latelyItems:          "lately.items",
	latelyLevels:         "lately.levels",
	attractionEnded:      "attraction.ended",
	silenceOpen:          "silence.open",
	qpmdQueue:            "qpmd.queue",
	qpmdOrder:            "qpmd.order",
	qpmdHold:             "qpmd.hold",
	boldOutstanding:      "bold.outstanding",
	boldRounds:           "bold.rounds",
	boldVectors:          "bold.vectors",
	boldWindows:          "bold.windows",
	preferences:          "preferences",
	experimentsArm:       "experiments.arm",
	experimentsVerdict:   "experiments.verdict",
	experimentsSums:      "experiments.sums",
	entriesArm:           "entries.arm",
	deltas:               "deltas",
}
