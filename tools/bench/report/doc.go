// Package report measures the whole pipeline on a real Kafka and a real Redis: how fast one worker
// drains a backlog, compared with the bare copier on the same broker, the cost of an impression, and
// its latency at a steady rate. `make bench` and the commands below tools/bench/cmd print its tables.
package report
