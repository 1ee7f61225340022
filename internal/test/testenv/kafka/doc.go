// Package kafka runs a real Apache Kafka in KRaft mode on loopback, one broker or a cluster, for tests, benchmarks and examples. It needs
// Java 17; Maven fetches the broker. It does not import testing.
package kafka
