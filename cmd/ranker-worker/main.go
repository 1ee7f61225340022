// Ranker-worker ranks the impressions of a Kafka topic, joins the selections and payoffs that follow, and learns from them. See
// `ranker-worker --help`.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(execute(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
