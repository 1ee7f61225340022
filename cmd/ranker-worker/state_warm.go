package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/plural"
)

func newWarmCommand() *cobra.Command {
	var (
		q    admin.WarmQuery
		file string
	)
	cmd := toolVerb(&cobra.Command{
		Use:   "warm [--config FILE] --from FILE [--learner L] [--weight W]",
		Short: "Begin a learner with past selections and payoffs (warm start)",
		Long: `Begin a new learner with selections and payoffs from before it was there, so that its first rankings use them. The file
is one of two kinds:

- a flat log, as evaluate --flat reads it: {"flat":1,"candidates":["a","b"]}, then a line for each selection:
  {"time":"2026-11-21T10:00:00Z","action":"a","propensity":0.5,"payoff":1}. A payoff that equals the learner's
  on_expiry counts as never paid.
- a table of totals in CSV with the columns item, selections, payoffs (their sum) and perhaps squares (the sum of their
  squares). Without squares each payoff is taken as one end of the payoff range.

--weight says how much a past selection counts beside a new one: with 0.2, 1,000 count like 200 with the same mean.

Payoffs are learned. Windows, the order of utilities, delays of payoffs and the share of impressions with a selection are
not in the file; the learner learns them from the first records. With drift or policy robust each selection needs its
time, so a table does not do. Learners with a context, and policies ftrl and osmd, cannot begin so.

It refuses while the group has live members, a learner that has items or decisions, and a file with faulty lines, which it
lists. A group that has never run begins here: kafka.start decides now where it begins to read.

No topic has these selections: state rebuild loses them, and replay needs a base from after the first start. Keep a
state export from after the warm start; after a rebuild, state import adds it.`,
		Example: `  ranker-worker state warm --config worker.yaml --from last-month.jsonl --weight 0.2
  ranker-worker state warm --config worker.yaml --learner feed-v2 --from totals.csv`,
	}, func(c *call, tool *admin.Tool) (*admin.WarmReport, error) {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return tool.Warm(c.ctx, file, f, q)
	}, printWarm)
	f := cmd.Flags()
	f.StringVar(&file, "from", "", "a flat log or a table of totals, in this `FILE`")
	f.StringVar(&q.Learner, "learner", "", "the learner's `NAME` (default: the default learner)")
	f.Float64Var(&q.Weight, "weight", 1, "how much a past selection counts, above 0 and at most 1")
	_ = cmd.MarkFlagRequired("from") // cannot fail: the flag has just been made
	return cmd
}

func printWarm(w io.Writer, r *admin.WarmReport) {
	fmt.Fprintf(w, "learner %s begins with %s of %s, from %s\n", r.Learner, plural.N(r.Payoffs, "payoff"), plural.N(r.Items, "item"),
		plural.N(r.Selections, "selection"))
	if r.TooFew > 0 {
		fmt.Fprintf(w, "%s had too few selections to count as one with this weight\n", plural.N(r.TooFew, "item"))
	}
	fmt.Fprintln(w, "No topic has them: state rebuild would lose them. Keep a state export from now.")
}
