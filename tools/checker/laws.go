package checker

// law is the place of a law below in lawNames.
type law uint8

// lawNames are the laws' names, in the order of the report.
var lawNames []string

func declare(name string) law {
	lawNames = append(lawNames, name)
	return law(len(lawNames) - 1)
}

// The laws, each with its statement.
var (
	metaFields           = declare("meta.fields")           // meta has its fields with numbers, the last checkpoint's id, and learners numbered from 0, each once
	metaTorn             = declare("meta.torn")             // no checkpoint is half-written
	metaOffsets          = declare("meta.offsets")          // offsets are within the logs, and above their witnesses
	metaWitness          = declare("meta.witness")          // an input's witness is the last record before the checkpoint, that of rankings one of theirs
	metaRankings         = declare("meta.rankings")         // a ranking that the checkpoint does not cover is at or above the position where a replay reads
	rankingsReadable     = declare("rankings.readable")     // rankings by producers of the state or of fences' markers can be decoded
	rankingsOrder        = declare("rankings.order")        // the offsets of the answered impressions rise strictly within a partition
	rankingsOnce         = declare("rankings.once")         // a known id is not ranked again
	rankingsMissing      = declare("rankings.missing")      // every impression below the checkpoint has a ranking, a dead letter, or a known id
	rankingsItems        = declare("rankings.items")        // a ranking has the candidates, each once
	rankingsDecision     = declare("rankings.decision")     // impression, partition, learner, effective time and layout are right; policy and delay were configured
	rankingsPropensities = declare("rankings.propensities") // with instances, probabilities that add up to 1, one per item
	rankingsAdmissible   = declare("rankings.admissible")   // with given windows, some distribution over rankings has them (the paper's section 4.2)
	rankingsRules        = declare("rankings.rules")        // the order is that of the policy, changed by pins and caps only, and marked wherever these could change it
	rankingsDeadlines    = declare("rankings.deadlines")    // both are as configured, from the later of effective time and watermark
	stepsReadable        = declare("steps.readable")        // the headers and the state's steps can be decoded
	stepsChain           = declare("steps.chain")           // each begins at the event time where the last ended; the state's watermark is not behind
	stepsLead            = declare("steps.lead")            // they lead to the ranked impression, and the state's to its offsets
	accountSum           = declare("account.sum")           // each topic's outcomes add up to the records read
	accountRead          = declare("account.read")          // the records read are those in the log up to the checkpoint
	accountOutcomes      = declare("account.outcomes")      // each count is that of the records; pending and parked are those stored
	accountLearners      = declare("account.learners")      // the learners' accounts add up to the partition's
	deadLetters          = declare("deadletters")           // a refused record has a dead letter
	entriesReadable      = declare("entries.readable")      // entries can be decoded
	entriesPlaced        = declare("entries.placed")        // each id is in the one hash where a worker looks for it
	entriesLost          = declare("entries.lost")          // every ranked impression has an entry until its tombstone may go
	entriesPhantom       = declare("entries.phantom")       // every entry has its impression, or its parked records, in the log
	entriesDecision      = declare("entries.decision")      // an entry has its ranking's values; after a selection, those of the selected item
	entriesOutcome       = declare("entries.outcome")       // an impression has ended as its records and configuration say, and is kept for join.remember
	entriesEarly         = declare("entries.early")         // no impression ends before its deadline, except by a payoff
	entriesSelection     = declare("entries.selection")     // the first selection in time is joined
	entriesPayoff        = declare("entries.payoff")        // the first payoff in time, or the sum, is applied
	entriesParked        = declare("entries.parked")        // parked records are those of the log that must wait, byte by byte
	index                = declare("index")                 // each entry is in a listed page, in a bucket no later than its next deadline
	itemsCatalogue       = declare("items.catalogue")       // items are numbered from 0, each once; each ranked item has a number
	itemsSums            = declare("items.sums")            // number, sum and sum of squares, with waiting payoffs, are those of the payoffs fed
	itemsKept            = declare("items.kept")            // items past item_retention are gone, and new if they come again; others say until when they are kept
	delayFields          = declare("delay.fields")          // a learner's own fields are well-formed
	delayFlights         = declare("delay.flights")         // an item has as many selections in flight as pending impressions with its selection
	silenceFlights       = declare("silence.flights")       // those in flight began in the blocks of time of their pending impressions
	silenceSettled       = declare("silence.settled")       // an item's paid and unpaid selections are its payoffs and defaults; likewise those below the default
	silenceAges          = declare("silence.ages")          // payoffs' delays are the log's, in the block of their selection, as of the stored pass, that of event time
	driftHistory         = declare("drift.history")         // payoffs by the block of time in which their selection began, as of the stored pass, that of event time
	contextCells         = declare("context.cells")         // payoffs and features of each item, by segment, and those of its selections in flight
	contextLinear        = declare("context.linear")        // over all payoffs, the products of features with each other and with payoffs
	contextCategories    = declare("context.categories")    // an item's category is the newest given since the item is known
	recentItems          = declare("recent.items")          // robust: payoffs, and inverse propensities of selections, by the block in which selections began
	recentLevels         = declare("recent.levels")         // robust: residuals of all items by block, as of the pass of the newest selection that was paid
	attractionEnded      = declare("attraction.ended")      // impressions by item on top that ended with its selection, another one's above the next leader, or none
	silenceOpen          = declare("silence.open")          // an item's partial payoffs are the sums of its pending impressions that say that they were fed
	qpmdQueue            = declare("qpmd.queue")            // each index from head to tail has one payoff, which was fed to the queue
	qpmdOrder            = declare("qpmd.order")            // the waiting payoffs came last, and are in order of arrival
	qpmdHold             = declare("qpmd.hold")             // nothing of the awaited item waits; the hold began with a selection of it that is pending
	boldOutstanding      = declare("bold.outstanding")      // an instance has as many outstanding decisions as pending impressions that it decided
	boldRounds           = declare("bold.rounds")           // it was fed the payoffs of its decisions
	boldVectors          = declare("bold.vectors")          // the sum of estimated losses (FTRL), or a point of probabilities that add up to 1 (OSMD)
	boldWindows          = declare("bold.windows")          // each selection with a certain order of utilities counts for one interval of windows
	preferences          = declare("preferences")           // each selection counts for the pairs of its ranking's ranks; estimates have number, mean and deviations
	experimentsArm       = declare("experiments.arm")       // an impression has the arm of its unit's hash, and is ranked by it or by a substitute
	experimentsVerdict   = declare("experiments.verdict")   // one ranking of a partition carries a stored verdict; the arm ranks everything before and nothing after
	experimentsSums      = declare("experiments.sums")      // an arm has as many units as it ranked, with their worth
	entriesArm           = declare("entries.arm")           // a pending impression has the arm of its ranking
	deltas               = declare("deltas")                // the delta stream reaches the checkpoint without a gap; its newest values are the stored ones
)
