// Package checker is a second opinion on the worker. It reads a group's topics from their beginning, folds them with a
// naive learner, reads what Redis has of each partition, and compares the two, field by field, by laws. It shares no code
// with the state machine, its learners and its store: what is stored is parsed here from its documentation; only records
// are read by the same decoder, and Kafka by the same client.
//
// Redis is read in one atomic step; the inputs up to where that checkpoint has come; the rankings to their end. So it can
// run while workers do, and after.
//
// # What depends on the interleaving
//
// The topics are read side by side, and Redis does not tell in which order. What became of an impression id depends on
// that order in these cases only, and then what Redis shows has to be one of the possibilities; it is counted as open, and
// never guessed:
//
//   - A record that came close to a deadline, or later in its topic than a record dated beyond the deadline: the watermark
//     may have passed the deadline before its turn came, or not. Close is Options.Lag. So with a record that had to wait,
//     and may have waited longer than the parking time, or with more than 16 others of its id, or (Options.ParkingFull)
//     when there was no room.
//   - A record of an impression that has ended, and which the impression would have refused: it is rejected before the
//     end, a duplicate or late after it.
//   - A record that came when the tombstone of its impression may have been forgotten.
//   - An id of which a second impression was ranked after the first was forgotten, and a learner that is not in all the
//     configurations: their records may have become anything, their items are not compared.
//   - What came for the impressions of a learner of before it was reset. What it has learned since is compared, as is what
//     one knows that took in an export: its history says from where on to fold, and what it began with. After other
//     commands than reset, import and rebuild only Redis is compared, with itself and the rankings.
//   - The order of two payoffs of an item, unless impression, selection and payoff of the one all stand before those of the
//     other in their topics.
//   - When the queues give a payoff to the learner: only N and what waits together are compared with what was taken in.
//   - What an instance of BOLD knows of an item that was not among the candidates of each payoff that it was fed: with FTRL
//     it begins with the median of the others, which depends on when. With OSMD the point itself, which is made of
//     one projection after another: only that it is one, and starts anew when it must.
//   - The last estimate of windows, which is made on a schedule of a worker's watermark; which instance decided, and what a
//     ranking looks like: they depend on all that was fed before. Not compared.
//   - A record that came for an id when that was over by more than Options.Lag, and forgotten (see Memory), and dated itself
//     in time: it was taken in if a worker's topics were far out of step. All counts are compared with so much slack.
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
//   - rankings.readable: what this group has written can be decoded.
//   - rankings.once, rankings.order: the offsets of the impressions answered rise strictly within a partition; and an id
//     that is known is not ranked again.
//   - rankings.missing: every impression below the checkpoint is ranked, or has a dead letter, or its id was known.
//   - rankings.items: what is ranked are the candidates, each once.
//   - rankings.decision: it names its impression, partition and learner, a policy and delay that were configured, and the
//     impression's effective time.
//   - rankings.propensities: probabilities that add up to 1, one for each item, wherever there are instances.
//   - rankings.admissible: and where windows are given, some distribution over rankings brings them about (the paper's
//     section 4.2).
//   - rankings.deadlines: both deadlines are those configured, counted from one moment, not before the effective time and
//     not after that and the watermark.
//   - account.sum: for each topic the outcomes add up to the records read.
//   - account.read: which are those in the log up to the checkpoint.
//   - account.outcomes: each count is what the records must have come to, or within what they may have; impressions
//     pending and records parked are as many as are stored.
//   - account.learners: the learners' accounts add up to the partition's.
//   - deadletters: a record that was certainly refused has a dead letter.
//   - entries.readable: what is stored under an id can be decoded.
//   - entries.placed: each id lies in the one hash that a worker looks for it in.
//   - entries.lost: every ranked impression has an entry until its tombstone may go.
//   - entries.phantom: every entry has its impression, or its parked records, in the log.
//   - entries.decision: it says what the ranking says: learner, offset, deadlines, items in the order shown, propensities,
//     instance.
//   - entries.selection, entries.payoff: what is selected, and whether and what was paid, is what the first selection and
//     payoff in time say, or the sum of the payoffs.
//   - entries.outcome, entries.early: an impression has ended as its selection, payoff and configuration say, and not
//     before event time has passed its deadline, but by a payoff.
//   - entries.parked: parked records are those of the log that have to wait, byte by byte, and no other.
//   - index: each id stands in the bucket of the expiry index that its entry names, no later than its next deadline.
//   - items.catalogue: items have numbers from 0 on, each once; each item ranked has one.
//   - items.sums: N, sum and sum of squares of an item, with what waits in its queue, are those of the payoffs taken in.
//   - delay.fields: the learner's own fields are as it writes them.
//   - delay.flights: an item is in flight as often as it is selected in a pending impression.
//   - qpmd.queue: each index from head to tail has one payoff, and each was taken in.
//   - qpmd.order: what was fed came before what waits, which is in the order in which it came.
//   - qpmd.hold: nothing waits of the item that is waited for; the hold began with a selection of it that is pending.
//   - bold.outstanding: an instance has as many outstanding decisions as there are pending impressions that it decided.
//   - bold.rounds: it has been fed the payoffs taken in of its decisions.
//   - bold.vectors: what it knows, of a rank or of an item that it was always shown, is the sum of the losses estimated from
//     the payoffs fed (FTRL); or is a point, made of probabilities that add up to 1, where it does not start anew (OSMD).
//   - bold.windows: each selection whose order of utilities was certain has told of the one interval that the ranking says,
//     of whatever learner learns windows.
//   - preferences: where the order of utilities is found, each selection was counted for the pairs that the ranking's ranks
//     and undecided say; and the estimates that came with selections have the number, mean and deviations stored.
//   - deltas: the stream that other partitions follow leads up to this checkpoint without a gap, and its newest values are
//     the stored ones.
//
// # Memory
//
// Of the partitions that are checked at once, ids are held in memory that are not over: until the log shows all topics past
// deadline and parking time by Options.Lag, and as long as Redis holds something of them. That is about 1 kB for each that
// stands in Redis too, with 10 candidates and the garbage collector's share apart (BenchmarkCheck, "at once"), and about a
// third of that where it stands in the log alone. At most twice as many are held as have to be. Of an id that is over 16
// bytes are remembered (its hash and until when it was known), which take a map about 30; of a dead letter 8 (its offset).
// What is read ahead takes up to 20 MB for each partition, whatever there is.
package checker
