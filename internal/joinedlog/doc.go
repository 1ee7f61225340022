// Package joinedlog joins logged rankings with impressions, selections and payoffs, for internal/evaluate and internal/lift. It is not
// from the paper. A Source is one partition (OpenTopics) or file (OpenLines). Read joins Sources by a Query into a Log, and Log.Play
// replays its Events. A row is a ranking by one learner whose order of utilities was known; with Query.Accept it is any accepted ranking,
// without Events.
//
// Records are joined by the rules of package partition, in the order of their times. Event time is the least of the newest times of
// impressions (with Query.Accept: rankings), payoffs and, where configured, selections. Ended rows are not remembered: if an id is used
// again, late records of its earlier impression may join the later one.
//
// At the end, rows younger than their payoff deadline are immature, even if paid: rows are compared at equal age. Rows before the first
// open row are mature. Events are in a temporary file; open rows, waiting records and all rows' Outcomes are in memory.
package joinedlog
