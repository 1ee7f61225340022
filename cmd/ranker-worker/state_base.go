package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/plural"
)

func newBaseCommand() *cobra.Command {
	var dir string
	cmd := toolVerb(&cobra.Command{
		Use:   "base [--config FILE] --out DIR",
		Short: "Copy the whole state, for replays of topics that have lost their beginning",
		Long: `Write the stored state to a new directory, a file for each partition. replay and explain begin with it (--base DIR) if the
topics have lost earlier records, and go on with it where Redis went back before: take one every day, after each restore and
each rebuild, and keep those that are younger than the topics' retention.

It only reads, with or without running workers. Each partition is read at one instant, which blocks Redis: for less than a
second per million pending impressions. If that is too long, name a replica under redis in a copy of the configuration.

Statistics of other partitions are not in Redis. Workers record them again within about a minute; rankings before that are
not exact in a replay. With delay: qpmd or bold all are exact only with a base taken without workers.`,
		Example: `  ranker-worker state base --config worker.yaml --out bases/2026-11-23
  ranker-worker replay --config worker.yaml --base bases/2026-11-23`,
		Args: without,
	}, func(c *call, tool *admin.Tool) (*admin.BaseReport, error) {
		return tool.TakeBase(c.ctx, dir)
	}, func(w io.Writer, r *admin.BaseReport) {
		entries := 0
		for i := range r.Partitions {
			entries += r.Partitions[i].Entries
		}
		fmt.Fprintf(w, "%s: %s, entries: %d.\n", r.Dir, plural.N(len(r.Partitions), "partition"), entries)
	})
	cmd.Flags().StringVarP(&dir, "out", "o", "", "write to this new `DIR`")
	_ = cmd.MarkFlagRequired("out")
	_ = cmd.MarkFlagDirname("out")
	return cmd
}
