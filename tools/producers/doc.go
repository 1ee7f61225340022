// Package producers holds tests only. Each codec's batches of common producers, small and large, plain, idempotent and in
// transactions, are read byte for byte and ranked. Our own encoder's batches differ: it always knows a batch's size beforehand.
//
//	testdata/Produce.java      Apache's producer, from the jars that testenv fetches
//	testdata/produce.py        librdkafka, through Python's client; scripts/tools installs it (requirements.txt)
//	producers_test.go          franz-go's, kafka-go's Writer, and the reading
//	clients_test.go            the programs of docs/clients, in four languages, each with a worker
//	testdata/package.json      Node's module; scripts/tools installs it, too
//
// Sarama is left out: it would bring a Kerberos client into this module, and its codecs are franz-go's.
package producers
