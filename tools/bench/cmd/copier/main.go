// Command copier measures the bare copier on a broker: it makes topics of its own, fills them and copies.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/tools/bench/copier"
)

func main() {
	addr := flag.String("brokers", "127.0.0.1:9092", "bootstrap address")
	records := flag.Int64("records", 600_000, "how many records to copy")
	partitions := flag.Int("partitions", 6, "partitions of the topics")
	from := flag.String("from", "", "copy this topic, which is filled already; empty: fill one of its own")
	to := flag.String("to", "", "the topic to copy to, with -from")
	plain := flag.Bool("plain", false, "copy by kafka-go's Client.Fetch and Client.Produce, with -from")
	flag.Parse()
	var err error
	if *from != "" {
		err = copyTopic(*addr, *records, *partitions, *from, *to, *plain)
	} else {
		err = run(*addr, *records, *partitions)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "copier:", err)
		os.Exit(1)
	}
}

func run(addr string, records int64, partitions int) error {
	name := fmt.Sprintf("copier-%d", time.Now().UnixNano())
	c, err := broker.New(broker.Options{Brokers: []string{addr}, Group: name, DLQSuffix: ".dlq",
		Topics: [event.Topics]string{event.Impressions: name + "-in", event.Payoffs: name + "-payoffs", event.Rankings: name + "-out"}})
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	if _, err := c.Create(ctx, broker.Spec{Partitions: partitions, Replication: 1}); err != nil {
		return err
	}
	for p := 0; p < partitions; {
		if _, err := c.Partition(int32(p)).Describe(ctx); err == nil {
			p++
		} else if ctx.Err() != nil {
			return err
		}
	}
	cfg := copier.Config{Client: c, Partitions: partitions, Records: records}
	if err := copier.Fill(ctx, cfg); err != nil {
		return err
	}
	res, err := copier.Run(ctx, cfg)
	if err != nil {
		return err
	}
	fmt.Println(res)
	return nil
}

func copyTopic(addr string, records int64, partitions int, from, to string, plain bool) error {
	c, err := broker.New(broker.Options{Brokers: []string{addr}, Group: "copier-" + to, DLQSuffix: ".dlq",
		Topics: [event.Topics]string{event.Impressions: from, event.Payoffs: from, event.Rankings: to}})
	if err != nil {
		return err
	}
	defer c.Close()
	copyAll := copier.Run
	if plain {
		copyAll = copier.RunPlain
	}
	res, err := copyAll(context.Background(), copier.Config{Client: c, Partitions: partitions, Records: records})
	if err != nil {
		return err
	}
	fmt.Println(res)
	return nil
}
