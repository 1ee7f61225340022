// Package checker is a second opinion on the worker. It reads a group's topics from their beginning, folds them with a
// naive learner, reads what Redis has of each partition, and compares the two, field by field, by laws. It shares no code
// with the state machine, its learners and its store, but for how event time is divided into blocks (inflight.Scheme): what is stored is parsed here from its documentation; only records
// are read by the same decoder, and Kafka by the same client.
//
// Redis is read in one atomic step; the inputs up to where that checkpoint has come; the rankings to their end. So it can
// run while workers do, and after.
//
// Each ranking tells in its header "steps" in which order the records since the ranking before were taken in, and how far
// event time had come; the state tells it of those since the last. The fold takes them in in that order. So it knows of each
// record what must have become of it, and counts and sums are compared for equality: after any crash, rollback or rebuild
// too, for these follow the same steps.
//
// # What is left open
//
// What this does not determine is counted as open, or said not to be checked, and never guessed:
//
//   - Records whose order is unknown: those before a ranking whose headers a mirror dropped, and those of a stretch too long for a
//     header. The outcomes of their ids are not compared, nor are the items ranked under these ids, and instances, windows and
//     preferences of their learners.
//   - A learner that is not in all the configurations: its records may have become anything, its items are not compared. So
//     with what event time had come to between two parking times, or to an on_expiry, that were configured one after another.
//   - What a learner knew before it was reset. What it has learned since is compared, as is what one knows that took in an
//     export: its history says from where on to fold, and what it began with. After a reshard only Redis is compared, with
//     itself and the rankings.
//   - When the queues give a payoff to the learner: only N and what waits together are compared with what was taken in. In
//     which order items' queues took in what ended with the walk over the deadlines.
//   - What an instance of BOLD knows of an item that was not among the candidates of each payoff that it was fed: with FTRL
//     it begins with the median of the others, which depends on when. With OSMD the point itself, which is made of
//     one projection after another: only that it is one, and starts anew when it must.
//   - The last estimate of windows, which is made on a schedule of a worker's watermark; which instance decided, and what a
//     ranking looks like: they depend on all that was fed before. Not compared.
//   - What was paid when (drift.history) of a learner whose drift was 0 in one of the configurations, or that had another horizon
//     or took in what another knew.
//   - The features of payoffs (context.*) of a learner that declared others under one of the configurations, or took in what another knew, or
//     adopted an impression that not all configurations could read; and, once an item has ended, what is left of its payoffs
//     (context.linear). The last fit, which is made of what other partitions know too.
//   - What was paid lately (lately.*) of a learner that had another shortest half-life under one of the configurations, or took in
//     what another knew. Which level and which spread are estimated, which also depends on other partitions. Whether the rows of
//     an item were merged when one of its selections ended last.
//   - With which items on top impressions ended (attraction.ended) of a learner that maximised payoff per selection under one of the
//     configurations, or took in what another knew.
//   - What silence has come to (silence.*) of a learner for which it did not age under all configurations, with one horizon and one default. How late payoffs are
//     taken to be and how many to come, which also depends on other partitions: only that they are shares.
//   - Whether an impression whose ranking might have been too large was refused for that, or should have been: its dead letter is
//     believed. So is the moment as of which an impression was taken that is dated far ahead: its ranking alone tells it.
//   - How far the worker's walk over the deadlines has come: what is due may be done, or not yet.
//   - Statistics of other partitions are no part of a partition's state, and not looked at.
//
// # The laws
//
//   - meta.fields: what belongs into meta is there, and numbers are; the last checkpoint's id is its writer's token and
//     seq; learners are numbered from 0 on, each once.
//   - meta.torn: no checkpoint stands half-written.
//   - meta.offsets: offsets are within the logs, and above their witnesses.
//   - meta.witness: the witness of each input is the last record before the checkpoint, the same bytes at the same time;
//     that of the rankings is a record of theirs.
//   - meta.rankings: a ranking whose impression the checkpoint does not cover stands at or above the position from which
//     a replay would look for it.
//   - rankings.readable: what this group has written can be decoded. Only what a producer has written counts that the state names,
//     or a fence's marker.
//   - rankings.once, rankings.order: the offsets of the impressions answered rise strictly within a partition; and an id
//     that is known is not ranked again.
//   - rankings.missing: every impression below the checkpoint is ranked, or has a dead letter, or its id was known.
//   - rankings.items: what is ranked are the candidates, each once.
//   - rankings.decision: it names its impression, partition and learner, a policy and delay that were configured, the
//     impression's effective time, and layout 1.
//   - rankings.propensities: probabilities that add up to 1, one for each item, wherever there are instances.
//   - rankings.admissible: and where windows are given, some distribution over rankings brings them about (the paper's
//     section 4.2).
//   - rankings.deadlines: both deadlines are those configured, counted from the effective time or the watermark, whichever
//     is later.
//   - steps.readable: what rankings and the state tell of the order can be decoded.
//   - steps.chain: each begins at the event time to which the one before has come, and the state's watermark is not behind.
//   - steps.lead: they lead to the impression that was ranked, and those of the state to its offsets.
//   - account.sum: for each topic the outcomes add up to the records read.
//   - account.read: which are those in the log up to the checkpoint.
//   - account.outcomes: each count is what the records have come to; impressions pending and records parked are as many as
//     are stored.
//   - account.learners: the learners' accounts add up to the partition's.
//   - deadletters: a record that was refused has a dead letter.
//   - entries.readable: what is stored under an id can be decoded.
//   - entries.placed: each id lies in the one hash that a worker looks for it in.
//   - entries.lost: every ranked impression has an entry until its tombstone may go.
//   - entries.phantom: every entry has its impression, or its parked records, in the log.
//   - entries.decision: it says what the ranking says: learner, offset, deadlines, items in the order shown, propensities,
//     what was expected, instance, and when its deadlines began; once something is selected, of that item alone.
//   - entries.selection, entries.payoff: what is selected, and whether and what was paid, is what the first selection and
//     payoff in time say, or the sum of the payoffs.
//   - entries.outcome, entries.early: an impression has ended as its selection, payoff and configuration say, and not
//     before event time has passed its deadline, but by a payoff; and it is remembered for as long as join.remember says.
//   - entries.parked: parked records are those of the log that have to wait, byte by byte, and no other.
//   - index: each entry lies in a page that is listed, in a bucket no later than its next deadline.
//   - items.catalogue: items have numbers from 0 on, each once; each item ranked has one.
//   - items.sums: N, sum and sum of squares of an item, with what waits in its queue, are those of the payoffs taken in.
//   - items.kept: an item that no impression has carried for item_retention, and of which none can be paid, is gone when a record was
//     taken in since; if it was ranked again it is a new one; and those that are there say up to when they are kept.
//   - delay.fields: the learner's own fields are as it writes them.
//   - delay.flights: an item is in flight as often as it is selected in a pending impression.
//   - silence.flights: where silence ages, as many of those in flight began in each block of time as there are pending
//     impressions that did; and never more than are in flight.
//   - silence.settled: of an item as many selections were paid as payoffs came in, and as many never were as defaults stood for; of
//     the former so many below the default, by so much.
//   - silence.ages: payoffs were as much later than their selections as the log says, each in the block of time in which its
//     selection began, as of the stored pass, those below the default and returns of sums apart; which is that of event time.
//   - context.cells, context.linear: with a context, the features of what was paid for each item, and of what is in flight, and over all
//     payoffs the products of features with each other and with what was paid, are those that the impressions say; where segments are
//     declared, of each item in each segment.
//   - context.categories: an item's category is the newest that an impression has given it since the item is known.
//   - drift.history: where means drift, an item was paid as often and as much as payoffs came in, in each block of time in which
//     selections began, as of the stored pass; which is that of event time.
//   - lately.items: with robust, an item was paid as often and as much as payoffs came in, and could have been selected as often as
//     the propensities of those selections say, in each block of time in which they began.
//   - lately.levels: payoffs of all items were as much above what their rankings expected, in each block of time, as of the stored
//     pass; which is that of the newest selection that was paid.
//   - attraction.ended: where payoff per impression is the aim, as many impressions with an item on top ended with a selection of that
//     item, or of another one shown above the next leader, and without any selection, as rankings and selections say.
//   - silence.open: of an item whose payoffs come in parts, what has come of those in flight is the sums of the pending impressions,
//     those that say that their learner was told; which is all of them where silence has always aged.
//   - qpmd.queue: each index from head to tail has one payoff, and each was taken in.
//   - qpmd.order: what waits came last, and is in the order in which it came.
//   - qpmd.hold: nothing waits of the item that is waited for; the hold began with a selection of it that is pending.
//   - bold.outstanding: an instance has as many outstanding decisions as there are pending impressions that it decided.
//   - bold.rounds: it has been fed the payoffs taken in of its decisions.
//   - bold.vectors: what it knows, of a rank or of an item that it was always shown, is the sum of the losses estimated from
//     the payoffs fed (FTRL); or is a point, made of probabilities that add up to 1, where it does not start anew (OSMD).
//   - bold.windows: each selection whose order of utilities was certain has told of the one interval that the ranking says,
//     of whatever learner learns windows.
//   - preferences: where the order of utilities is found, each selection was counted for the pairs that the ranking's ranks
//     and undecided say; and the estimates that came with selections have the number, mean and deviations stored.
//   - experiments.arm: an impression was given the arm that its unit's hash says, and ranked by it, or by another one in its place.
//   - experiments.verdict: one ranking of the partition tells of a verdict; from then on the arm ranks nothing, before it all; and it is stored.
//   - experiments.sums: as many units of an arm are counted as it has ranked, and worth what they came to when they ended.
//   - entries.arm: a pending impression is a unit of the arm that its ranking says.
//   - deltas: the stream that other partitions follow leads up to this checkpoint without a gap, and its newest values are
//     the stored ones.
//
// # Memory
//
// Of the partitions that are checked at once, ids are held in memory that are not over: until event time has passed deadline and
// parking time, in the order in which records were taken in, and as long as Redis holds something of them. That is as many as
// the worker held at that time; about 1 kB for each that stands in Redis too, with 10 candidates and the garbage collector's
// share apart (BenchmarkCheck, "at once"), and about a third of that where it stands in the log alone. At most twice as many
// are held as have to be. Of an id that is over nothing is remembered; of a dead letter 8 bytes (its offset). Of ids met where
// nothing tells the order 16 bytes are remembered (a hash, and until when it was known), which take a map about 30. What is
// read ahead takes up to 20 MB for each partition, whatever there is.
package checker
