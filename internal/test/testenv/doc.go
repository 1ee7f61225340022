// Package testenv starts the servers that tests need: a real Apache Kafka and a real redis-server, or the embedded
// pair (kfake and miniredis) that the demo uses.
//
// # Which ones a test gets
//
//	Kafka(t), Redis(t)        one real server for all tests of the process; do not touch others' data
//	OwnKafka(t), OwnRedis(t)  a real server for this test, to be killed, paused and restarted
//	OwnRedisCluster(t)        a Redis Cluster of three masters for this test
//	Embedded(t)               kfake and miniredis, for this test
//	Each(t, f)                runs f on the embedded pair and on the real pair
//	One(t, f)                 runs f on the real pair, or if there is none on the embedded pair
//
// Servers listen on loopback only, on free ports. They end with the test process at the latest, even if it panics or
// is killed (see package proc). `make test` starts one Kafka and one Redis for all packages and names them in
// RANKER_TEST_KAFKA and RANKER_TEST_REDIS. Without these variables, a process starts its own on first use.
//
// If a server cannot be started, the test fails with one line that says how to install it. With RANKER_TEST_SHORT=1
// (`make test-short`) tests that need real servers are skipped, and log it.
//
// The servers themselves are in the packages kafka and redis below. These do not import testing, so that benchmarks
// and examples can use them.
package testenv
