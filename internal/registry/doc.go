// Package registry reads records in Avro, whose schemas are in a schema registry: what a record says is made into the same record in
// Protobuf, which the rest of the worker reads without asking anybody.
package registry
