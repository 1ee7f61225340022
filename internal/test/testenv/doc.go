// Package testenv gives tests the components that the worker runs with: a real Apache Kafka and a real redis-server,
// and the embedded pair (kfake and miniredis) that the demo uses.
//
// # Which ones a test gets
//
//	Kafka(t), Redis(t)        one real server for all tests of the process; leave what others wrote alone
//	OwnKafka(t), OwnRedis(t)  a real server for this test, to be killed, paused and restarted
//	OwnRedisCluster(t)        a Redis Cluster of three masters for this test
//	Embedded(t)               kfake and miniredis, for this test
//	Each(t, f)                runs f on the embedded pair and on the real pair
//
// Servers listen on loopback only, on free ports, and end with the test process at the latest, also when it panics
// or is killed (package proc says how). `make test` starts one Kafka and one Redis for all packages and names them in
// RANKER_TEST_KAFKA and RANKER_TEST_REDIS; without these variables, a process starts its own when it first needs them.
//
// A component that cannot be had fails the test, with one line that says what to install. RANKER_TEST_SHORT=1
// (`make test-short`) asks for a run without real components; what is then left out says so in its log.
//
// The servers themselves are in the packages kafka and redis below, which know nothing of testing, so that
// benchmarks and examples start them too.
package testenv
