package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ranker-worker/ranker-worker/internal/evaluate"
	"github.com/ranker-worker/ranker-worker/internal/joinedlog"
)

const judging = "moss"

var judged = []string{"utility", "greedy"}

// judge estimates other policies' payoffs by the log of the one that was played, like `ranker-worker evaluate`.
func (p *play) judge(ctx context.Context) (*evaluate.Report, error) {
	l := &p.cfg.Learners[0]
	q := &joinedlog.Query{Learner: l, Group: p.group, HasSelections: true, Parking: time.Hour}
	sources, err := joinedlog.OpenTopics(ctx, p.log, q)
	if err != nil {
		return nil, err
	}
	log, err := joinedlog.Read(ctx, sources, q)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	var targets []*evaluate.Target
	for _, name := range judged {
		t, err := evaluate.ParseTarget(name, l, p.cfg)
		if err != nil {
			return nil, err
		}
		targets = append(targets, t)
	}
	return evaluate.Log(ctx, log, l, targets, &evaluate.Options{Units: l.PayoffRange})
}

// writeJudged prints estimates of policies by another's log beside their own payoffs.
func (r *report) writeJudged(out io.Writer) error {
	got := map[string]float64{}
	var by *evaluate.Report
	for i := range r.Policies {
		if got[r.Policies[i].Policy] = r.Policies[i].Payoff; r.Policies[i].Judged != nil {
			by = r.Policies[i].Judged
			got["utility"] = r.Policies[i].PayoffUtilityOrder // of the same users, played or not
		}
	}
	if by == nil {
		return nil
	}
	fmt.Fprintf(out, "\nBy the log of %s alone (%d impressions judged):\n\n", judging, by.Log.Judged)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "policy\tis said to be worth\t95 %\tat any look\tgot itself")
	for i := range by.Targets {
		t := &by.Targets[i]
		itself := "not played"
		if x, ok := got[t.Target]; ok {
			itself = fmt.Sprintf("%.4f", x)
		}
		value, interval := "-", "-"
		if t.Verdict == evaluate.OK {
			value = fmt.Sprintf("%.4f", t.DR.Value)
		}
		if t.Verdict == evaluate.OK && t.DR.Lower != nil {
			interval = fmt.Sprintf("[%.4f, %.4f]", *t.DR.Lower, *t.DR.Upper)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t[%.4f, %.4f]\t%s\n", t.Target, value, interval, t.Sequence.Lower, t.Sequence.Upper, itself)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for i := range by.Targets {
		if t := &by.Targets[i]; t.Verdict == evaluate.Refused {
			fmt.Fprintf(out, "%s has no value by this log: %s.\n", t.Target, strings.Join(t.Reasons, "; "))
		}
	}
	return nil
}
