package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/admin"
)

func printFeatures(w io.Writer, all []admin.FeatureReport) {
	fmt.Fprintln(w, "  by how much a payoff changes where a feature goes from the middle of its range to its end (in payoff ranges):")
	var t table
	t.row("feature\tchange\tgive or take")
	for _, f := range all {
		t.row("%s\t%.4f\t%.4f", f.Feature, f.Effect, f.SD)
	}
	t.write(w, "  ")
}

// printDeviations prints the standard deviations of the effects on payoffs.
func printDeviations(w io.Writer, all []admin.DeviationReport) {
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
	slices.SortStableFunc(all, func(a, b admin.AddReport) int { return cmp.Compare(math.Abs(b.Adds), math.Abs(a.Adds)) })
	for _, a := range all {
		sum += a.Adds
	}
	fmt.Fprintf(w, "  expected of %s: %.4f, from", c.Item, sum)
	sep := ""
	for _, a := range all[:min(len(all), mostAdds)] {
		name := a.Feature
		if name == "" {
			name = "its " + a.Level
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
