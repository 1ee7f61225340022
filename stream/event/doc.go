// Package event holds the records that travel through Kafka and their JSON codec. It is the one place that decides
// what is faulty, and says why. It is a pure leaf: it imports nothing of this project.
package event
