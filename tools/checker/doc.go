// Package checker is a second opinion on the worker. Check reads a group's topics from their beginning, folds them with naive learners,
// reads each partition's state from Redis in one atomic step, and compares the two by laws (laws.go). A Report lists violations. The data
// that laws share are in model.go.
//
// It shares no code with state machine, learners and store, except the buckets of event time (inflight.Scheme):
// stored values are parsed by their documentation. The record decoder and the Kafka client are the worker's. Statistics that the topics
// do not determine are listed at Check, and not compared.
//
// The fold processes records in the order that rankings' "steps" headers and the state say. So counts and sums must be equal, after
// crashes, rollbacks and rebuilds too. It runs beside working workers and after them: in tests with faults, and as a command.
package checker
