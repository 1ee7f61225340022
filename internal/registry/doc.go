// Package registry reads Avro records, whose schemas are in a Confluent-style schema registry. It converts each record to Protobuf, which
// the rest of the worker reads without a network.
package registry
