// Package event defines the records in the Kafka topics (impressions, selections, payoffs, rankings) and reads and
// writes them, as JSON or Protobuf. It alone decides that a record is faulty, and for which reason. It is pure, and
// imports no package of this project.
package event
