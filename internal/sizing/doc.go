// Package sizing estimates a deployment's resources for a given traffic: Redis's memory and load, the workers' memory and cores,
// and Kafka's storage per day. NewEstimate multiplies the numbers of a Workload by unit costs, measured constants in costs.go;
// Following is the traffic between machines and the cost of a rebalance. Tests compare the costs with a real Redis, filled by the
// worker, and a machine's heap; a failing test prints the constant to set. It is not from the paper.
package sizing
