// Package producers holds tests only. Of one, what the producers that are in use write, in every codec, in small batches and in
// large ones, plain, idempotent and in transactions, is read byte for byte and ranked. Batches that our own encoder makes
// are not what others make: it always knows how much is to come.
//
//	testdata/Produce.java      Apache's producer, from the jars that testenv fetches
//	testdata/produce.py        librdkafka, through Python's client; scripts/tools installs it into .cache
//	testdata/requirements.txt  its version
//	producers_test.go          franz-go's, kafka-go's Writer, and what is written and read
//	clients_test.go            the programs of docs/clients, in four languages, each with a worker
//	testdata/package.json      the module that Node's needs; scripts/tools installs it, too
//
// Sarama is left out: it would bring a Kerberos client into this module, and its codecs are those of franz-go.
package producers
