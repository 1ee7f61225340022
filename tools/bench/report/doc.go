// Package report measures the pipeline on a real Kafka and a real Redis. It compares the speed of one worker on a backlog with the bare
// copier on the same broker. It reports the cost of an impression, and its latency at a steady rate. `make bench` and the commands below
// tools/bench/cmd print its tables.
package report
