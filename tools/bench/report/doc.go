// Package report measures the pipeline on a real Kafka and a real Redis. It compares the speed of one worker on a backlog with the bare
// copier on the same broker. It reports the cost of an impression, and its latency at a steady rate. `make bench` and
// tools/bench/cmd/report print its tables.
package report
