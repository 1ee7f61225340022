// Package joinedlog reads what a learner decided and what became of it, from Kafka's topics or from files of their records, in the order of
// event time, and plays it as often as it is asked for.
//
// A row is a decision whose impression and ranking were both found. What follows is joined to it as the worker does it: the selection, a
// payoff or the sum of several, and the end, when event time is past a deadline. Event time has come as far as the least, over the
// topics, of the newest time read. A row that is younger at the log's end than its payoff deadline is immature, even where it was paid: rows are
// to be compared at equal age. But where all rows up to one have ended, these count whatever their age: payoffs that always come need not be
// waited for.
//
// Rows stay in a temporary file, so that memory is needed for what has not ended alone.
package joinedlog
