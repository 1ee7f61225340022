// Package event defines the records in the Kafka topics (impressions, selections, payoffs, rankings), their JSON and Protobuf, and the
// reasons to refuse a record. It is pure, and imports no package of this project.
package event
