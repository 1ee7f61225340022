// Package sizing estimates the resources of a deployment for a given traffic: Redis's memory and load, the workers'
// memory and cores, and Kafka's storage per day. Estimate multiplies the number of each thing by its cost. The costs
// are measured constants in costs.go. Tests compare them with a real Redis, filled by the worker's machine and store,
// and with a machine's heap. A failing test prints its measurement and the constant to set.
//
// Following estimates the traffic between many machines: reading other partitions' deltas, and the cost of a
// rebalance.
package sizing
