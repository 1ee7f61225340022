// Command copier copies a topic's records by the worker's client, and does nothing else. cmd/report compares a worker with it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/tools/bench/copier"
)

func main() {
	addr := flag.String("brokers", "127.0.0.1:9092", "bootstrap address")
	records := flag.Int64("records", 600_000, "how many records to copy")
	partitions := flag.Int("partitions", 6, "partitions of the topics")
	from := flag.String("from", "", "the topic to copy")
	to := flag.String("to", "", "the topic to copy to")
	flag.Parse()
	if err := run(*addr, *records, *partitions, *from, *to); err != nil {
		fmt.Fprintln(os.Stderr, "copier:", err)
		os.Exit(1)
	}
}

func run(addr string, records int64, partitions int, from, to string) error {
	c, err := broker.New(broker.Options{Brokers: []string{addr}, Group: "copier-" + to, DLQSuffix: ".dlq",
		Topics: [event.Topics]string{event.Impressions: from, event.Payoffs: from, event.Rankings: to}})
	if err != nil {
		return err
	}
	defer c.Close()
	return copier.Run(context.Background(), copier.Config{Client: c, Partitions: partitions, Records: records})
}
