package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/plural"
)

func newInspectCommand() *cobra.Command {
	var (
		q          admin.InspectQuery
		candidates string
		items      int
	)
	cmd := toolVerb(&cobra.Command{
		Use:   "inspect [--config FILE] [--learner L] [--partition P] [--candidates a:0.1,b:0.7]",
		Short: "Show learners' statistics, and explain the ranking of a list",
		Long: `Show learners' statistics: payoffs, sums and means of items, selections in flight and their weight, QPM-D's queues, BOLD's
instances, windows, and each partition's offsets and account. It only reads, with the code by which workers load their
state, and can run beside them.

With --candidates the list is ranked like an impression of it, with the reasons: each candidate either leads, or is hidden
by a leader that users prefer and would select. Ties are random for each impression; here the learner's seed breaks them.

If the learner finds the order of utilities itself, the order found so far is shown, with a question mark where it is not
certain, and the approximate number of selections that it still needs; --candidates are plain items then (a,b).

Without --partition, statistics of all partitions are pooled, as workers pool them. With it, only that partition's own count.
Payoffs are scaled from the payoff range to 0..1.`,
		Example: `  ranker-worker state inspect --config worker.yaml
  ranker-worker state inspect --config worker.yaml --learner feed --candidates film-1:0.1,film-2:0.7
  ranker-worker state inspect --config worker.yaml --partition 3 --json`,
	}, func(c *call, tool *admin.Tool) (*admin.Report, error) {
		return tool.Inspect(c.ctx, q)
	}, func(w io.Writer, r *admin.Report) { printReport(w, r, items) })
	cmd.PreRunE = func(*cobra.Command, []string) (err error) {
		if q.Candidates, err = parseCandidates(candidates); err != nil {
			return fmt.Errorf("--candidates: %w", err)
		}
		if q.Partition < -1 || items < 0 {
			return errors.New("--partition and --items cannot be negative")
		}
		return nil
	}
	f := cmd.Flags()
	f.StringVar(&q.Learner, "learner", "", "only the learner of this `NAME`")
	f.Int32Var(&q.Partition, "partition", -1, "only this partition's own statistics")
	f.StringVar(&candidates, "candidates", "", "rank this `LIST` of item:utility, separated by commas; a plain item has the median of the others' utilities")
	f.IntVar(&items, "items", 20, "how many items to list, those with the most payoffs first; --json lists all")
	return cmd
}

// parseCandidates reads a:0.1,b:0.7, and plain items. An item may contain colons: the part after the last one is a utility if it is a
// number.
func parseCandidates(text string) ([]admin.Candidate, error) {
	if text == "" {
		return nil, nil
	}
	var all []admin.Candidate
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		c := admin.Candidate{Item: part, Plain: true}
		if at := strings.LastIndexByte(part, ':'); at >= 0 {
			if u, err := strconv.ParseFloat(part[at+1:], 64); err == nil {
				c = admin.Candidate{Item: part[:at], Utility: u}
			}
		}
		if c.Item == "" {
			return nil, fmt.Errorf("%q is neither item:utility nor an item", part)
		}
		if math.IsNaN(c.Utility) || math.IsInf(c.Utility, 0) {
			return nil, fmt.Errorf("the utility of %q is not finite", part)
		}
		if seen[c.Item] {
			return nil, fmt.Errorf("item %q comes twice", c.Item)
		}
		seen[c.Item] = true
		all = append(all, c)
	}
	return all, nil
}

func printReport(w io.Writer, r *admin.Report, items int) {
	fmt.Fprintf(w, "Group %s\n\n", r.Group)
	var t table
	t.row("partition\tcheckpoints\timpressions read\tpending\tpayoffs applied\tparked\twatermark")
	for _, p := range r.Partitions {
		a := p.Account
		t.row("%d\t%d\t%d\t%d\t%d\t%d\t%s", p.Partition, p.Sequence, a["impressions.read"], a["impressions.pending"],
			a["payoffs.applied"], a["selections.parked"]+a["payoffs.parked"], p.Watermark)
	}
	t.write(w, "")
	for _, p := range r.Partitions {
		for _, h := range p.History {
			fmt.Fprintf(w, "partition %d, %s: %s %s %s\n", p.Partition, h.Time, h.Done, h.Learner, h.Detail)
		}
	}
	for i := range r.Learners {
		printLearner(w, &r.Learners[i], items)
	}
	for i := range r.Experiments {
		printExperiment(w, &r.Experiments[i])
	}
}

func printExperiment(w io.Writer, x *admin.ExperimentReport) {
	counted := "no units are counted yet"
	if x.Counted != "" {
		counted = "deadlines up to " + x.Counted + " are counted"
	}
	fmt.Fprintf(w, "\nExperiment %s, run %d, by %s: %s\n", x.Experiment, x.Run, x.By, counted)
	var t table
	t.row("arm\tunits\tpayoff\tlift\tat any look\t")
	for _, a := range x.Arms {
		if a.Arm == x.Control {
			t.row("%s\t%d\t%.4f\t\t\tcontrol", a.Arm, a.Units, a.Payoff)
			continue
		}
		verdict := a.Verdict
		if a.OutOfService {
			verdict = "out of service"
		}
		t.row("%s\t%d\t%.4f\t%+.4f\t[%+.4f, %+.4f]\t%s", a.Arm, a.Units, a.Payoff, a.Lift, a.Lower, a.Upper, verdict)
	}
	t.write(w, "  ")
}

func printLearner(w io.Writer, l *admin.LearnerReport, items int) {
	fmt.Fprintf(w, "\nLearner %s: policy %s, delay %s, %s, %s fed\n", l.Learner, l.Policy, l.Delay, plural.N(len(l.Items), "item"),
		plural.N(l.Payoffs, "payoff"))
	if l.Warmed > 0 {
		fmt.Fprintf(w, "  (a warm start brought %s)\n", plural.N(l.Warmed, "payoff"))
	}
	if l.PayoffRange != [2]float64{0, 1} {
		fmt.Fprintf(w, "  (payoffs scaled from %v..%v to 0..1)\n", l.PayoffRange[0], l.PayoffRange[1])
	}
	for _, p := range l.Parts {
		if p.Hold != nil {
			fmt.Fprintf(w, "  partition %d is on hold: it waits for a payoff of %q, selected from the impression at offset %d\n",
				p.Partition, p.Hold.Item, p.Hold.Impression)
		}
		if len(p.Instances) > 0 {
			var outstanding int64
			for _, i := range p.Instances {
				outstanding += int64(i.Outstanding)
			}
			fmt.Fprintf(w, "  partition %d has %s, waiting for %s\n", p.Partition, plural.N(len(p.Instances), "instance"),
				plural.N(outstanding, "impression"))
		}
	}
	printSilence(w, &l.Silence)
	if len(l.Windows) > 0 {
		how := "given"
		switch {
		case l.LearnedFrom > 0:
			how = "learned from " + plural.N(l.LearnedFrom, "selection")
			if l.Noise > 0 {
				how += fmt.Sprintf("; %.2g%% of users select any item in theirs", 100*l.Noise)
			}
		case l.Learns:
			how = "to be learned; these are assumed before there are selections"
		}
		fmt.Fprintf(w, "  windows (%s):", how)
		for i, q := range l.Windows[:min(len(l.Windows), 10)] {
			fmt.Fprintf(w, " %d: %.3f", i+1, q)
		}
		fmt.Fprintln(w)
	}
	if b := l.Beliefs; b != nil {
		if b.SD != nil {
			fmt.Fprintf(w, "  prior of items' means: %.4f ± %.4f;", *b.Mean, *b.SD)
		}
		fmt.Fprintf(w, "  payoffs of one item vary by %.4f (in payoff ranges)\n", b.PayoffSD)
	}
	if l.Impressions != nil {
		printImpressions(w, l.Impressions)
	}
	if len(l.Features) > 0 {
		printDeviations(w, l.Deviations)
		printDivision(w, l.Division)
		printFeatures(w, l.Features)
	}
	if l.Level != nil {
		printLevel(w, l.Level)
	}
	if l.Order != nil {
		printOrder(w, l.Order, items)
	}
	var t table
	share := func(text string) string { // of learners that count impressions
		if l.Impressions == nil {
			return ""
		}
		return "\t" + text
	}
	t.row("item\tpayoffs\tmean\tin flight\tsilence\twaiting%s", share("on top\tselect"))
	for _, it := range l.Items[:min(items, len(l.Items))] {
		t.row("%s\t%d\t%s\t%d\t%.2f\t%d%s", it.Item, it.Payoffs, number(it.Mean, "–"), it.InFlight, it.Silent, it.Waiting,
			share(fmt.Sprintf("%d\t%s", it.OnTop, number(it.Share, "–"))))
	}
	t.write(w, "  ")
	if more := len(l.Items) - items; more > 0 {
		fmt.Fprintf(w, "  and %d more\n", more)
	}
	if l.Ranking != nil {
		printRanking(w, l.Ranking)
	}
}

func printSilence(w io.Writer, s *admin.SilenceReport) {
	if s.Law == string(config.Waits) {
		return
	}
	fmt.Fprintf(w, "  silence %s: the column silence has the weight of selections in flight, in selections never paid", s.Law)
	if s.PaidShare != nil {
		seconds := func(x *float64) time.Duration { return time.Duration(*x * float64(time.Second)).Round(time.Second) }
		fmt.Fprintf(w, ";\n  %.4f of selections are paid, half of those within %v, nine tenths within %v", *s.PaidShare,
			seconds(s.DelayP50), seconds(s.DelayP90))
	}
	fmt.Fprintln(w)
}

func printImpressions(w io.Writer, r *admin.ImpressionReport) {
	if r.Share == nil {
		fmt.Fprintln(w, "  share of impressions with a selection: no impression has ended yet")
		return
	}
	fmt.Fprintf(w, "  %.4f of %s ended with a selection; payoff per selection %s, per impression %s (in payoff ranges)\n", *r.Share,
		plural.N(r.Impressions, "impression"), number(r.PerSelection, "not known yet"), number(r.PerImpression, "not known yet"))
}

func printLevel(w io.Writer, l *admin.LevelReport) {
	if l.AsOf == "" {
		fmt.Fprintln(w, "  level of all payoffs: no payoff has come yet")
		return
	}
	fmt.Fprintf(w, "  level of all payoffs, as of selections of %s: %+.4f (in payoff ranges), ", l.AsOf, l.Level)
	if l.HalfLife == nil {
		fmt.Fprintln(w, "which has not changed lately")
		return
	}
	fmt.Fprintf(w, "which has changed lately: half-life %v\n", time.Duration(*l.HalfLife*float64(time.Second)))
}

// printOrder prints the estimated order of utilities, with a question mark where it is not certain.
func printOrder(w io.Writer, o *admin.OrderReport, items int) {
	if o.UndecidedPairs == 0 {
		fmt.Fprint(w, "  order of utilities (certain): ")
	} else {
		fmt.Fprintf(w, "  order of utilities (%s undecided; selections needed: about %.0f): ", plural.N(o.UndecidedPairs, "pair"), o.Expected)
	}
	for k, it := range o.Items[:min(items, len(o.Items))] {
		switch {
		case it.Undecided:
			fmt.Fprint(w, " ? ")
		case k > 0:
			fmt.Fprint(w, " < ")
		}
		fmt.Fprint(w, it.Item)
	}
	if more := len(o.Items) - items; more > 0 {
		fmt.Fprintf(w, " … and %d more", more)
	}
	fmt.Fprintln(w)
}

func printRanking(w io.Writer, r *admin.Ranking) {
	fmt.Fprintf(w, "\n  How these candidates would be ranked\n  Rule: %s.\n", r.Rule)
	if r.OnHold != "" {
		fmt.Fprintf(w, "  Statistics are frozen until a payoff of %q comes.\n", r.OnHold)
	}
	printDivision(w, r.Division)
	var t table
	share := func(c *admin.RankedCandidate) string { return "" }
	head := ""
	if slices.ContainsFunc(r.Candidates, func(c admin.RankedCandidate) bool { return c.Share != nil }) {
		head = "per selection\tselect\tper impression\t"
		share = func(c *admin.RankedCandidate) string {
			return number(c.PerSelection, "–") + "\t" + number(c.Share, "–") + "\t" + number(c.PerImpression, "–") + "\t"
		}
	}
	t.row("item\tutility\tpayoffs\tworth\t%smean\tinterval\tindex\tpropensity\twhy", head)
	for place, c := range r.Candidates {
		why := "leads"
		if !c.Leads {
			why = "blocked by " + c.BlockedBy
		}
		if c.BeatenBy != "" {
			why += ", beaten by " + c.BeatenBy
		}
		if c.Decided > 0 && c.Decided != place+1 {
			why += fmt.Sprintf("; the policy's place %d", c.Decided)
		}
		if c.Rule != "" {
			why += ", " + c.Rule
		}
		interval := ""
		if c.Lower == nil || c.Upper == nil || *c.Lower != *c.Upper {
			interval = number(c.Lower, "−∞") + ".." + number(c.Upper, "∞")
		}
		utility := "found"
		if !r.OwnOrder {
			utility = strconv.FormatFloat(c.Utility, 'g', -1, 64)
		}
		if c.Filled {
			utility += " (median)"
		}
		t.row("%s\t%s\t%d\t%.2f\t%s%s\t%s\t%s\t%s\t%s", c.Item, utility, c.Payoffs, c.Worth, share(&c), number(c.Mean, "–"),
			interval, number(c.Index, "–"), number(c.Propensity, ""), why)
	}
	t.write(w, "  ")
	for i := range r.Candidates {
		if c := &r.Candidates[i]; len(c.Adds) > 0 {
			printAdds(w, c)
		}
	}
}

func number(x *float64, none string) string {
	if x == nil {
		return none
	}
	return strconv.FormatFloat(*x, 'g', 4, 64)
}

func printFeatures(w io.Writer, all []delay.Coefficient) {
	fmt.Fprintln(w, "  by how much a payoff changes where a feature goes from the middle of its range to its end (in payoff ranges):")
	var t table
	t.row("feature\tchange\tgive or take")
	for _, f := range all {
		t.row("%s\t%.4f\t%.4f", f.Name, f.Value, f.SD)
	}
	t.write(w, "  ")
}

// printDeviations prints the standard deviations of the effects on payoffs.
func printDeviations(w io.Writer, all []delay.Deviation) {
	fmt.Fprint(w, "  payoffs differ (in standard deviations, in payoff ranges)")
	sep := ":"
	for _, d := range all {
		by := "by " + d.Level
		if d.Level == delay.OfChance.String() {
			by = "by chance"
		}
		fmt.Fprintf(w, "%s %s %.4f", sep, by, d.SD)
		sep = ","
	}
	fmt.Fprintln(w)
}

// printDivision prints the buckets of the clock and of items' ages, and the time from which payoffs count.
func printDivision(w io.Writer, d *admin.DivisionReport) {
	if d == nil {
		return
	}
	sep := "  groups:"
	for _, g := range d.Groups {
		fmt.Fprintf(w, "%s %s %d", sep, g.Of, g.N)
		sep = ","
	}
	if len(d.Groups) > 0 {
		fmt.Fprintln(w)
	}
	if d.Since != "" {
		fmt.Fprintf(w, "  payoffs count of selections since %s\n", d.Since)
	}
}

// mostAdds bounds the summands shown for a candidate, largest first.
const mostAdds = 8

func printAdds(w io.Writer, c *admin.RankedCandidate) {
	all, sum := slices.Clone(c.Adds), 0.0
	slices.SortStableFunc(all, func(a, b delay.Contribution) int { return cmp.Compare(math.Abs(b.Adds), math.Abs(a.Adds)) })
	for _, a := range all {
		sum += a.Adds
	}
	fmt.Fprintf(w, "  expected of %s: %.4f, from", c.Item, sum)
	sep := ""
	for _, a := range all[:min(len(all), mostAdds)] {
		name := a.Feature
		if name == "" {
			name = "its " + a.Cause.String()
		}
		if a.Group != "" {
			name += " (" + a.Group + ")"
		}
		fmt.Fprintf(w, "%s %s %+.4f", sep, name, a.Adds)
		sep = ","
	}
	if rest := all[min(len(all), mostAdds):]; len(rest) > 0 {
		left := 0.0
		for _, a := range rest {
			left += a.Adds
		}
		fmt.Fprintf(w, " and %d more %+.4f", len(rest), left)
	}
	fmt.Fprintln(w)
}
