// Package report measures the whole pipeline on a real Kafka and a real Redis: how fast one worker drains a backlog,
// held against the bare copier on the same broker in the same minute, what an impression costs it, and how long an
// impression waits for its ranking at a steady rate. `make bench` prints its table.
package report
