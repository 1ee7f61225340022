// Package joinedlog reads a learner's decisions and their outcomes from Kafka's topics or from files, joined in event time. Read
// returns a Log, whose Play replays its Events any number of times; a Source is one partition or file. It is not from the paper.
//
// A row is a decision with impression and ranking. Selection, payoffs and end are joined to it as the worker does. Event time is
// the least, over topics, of the newest time read. At the log's end a row younger than its payoff deadline is immature, even if
// paid, since rows must be compared at equal age. But if all rows up to one have ended, these count at any age. Events are in a
// temporary file, so that memory is for open rows only.
package joinedlog
