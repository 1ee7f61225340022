// Package platform simulates the shop or site around a worker, on real Kafka. It publishes impressions, reads the rankings, and publishes
// its users' reactions: selections soon, payoffs late. It has two clocks: it plays a number of impressions as fast as they are ranked, on a
// simulated clock, or in real time at a rate. The demo, `generate` and the examples use it.
package platform
