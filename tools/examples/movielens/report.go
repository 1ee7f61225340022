package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/ranker-worker/ranker-worker/internal/evaluate"
	"github.com/ranker-worker/ranker-worker/tools/examples/movielens/data"
)

// report is the program's output; README.md defines the numbers.
type report struct {
	Impressions     int      `json:"impressions"` // per policy
	Partitions      int      `json:"partitions"`
	Seed            uint64   `json:"seed"`
	Late            any      `json:"late"` // "data", or a number of impressions
	Unanswered      int      `json:"unanswered"`
	Users           int      `json:"users"`
	IntervalSeconds float64  `json:"interval_seconds"` // between impressions, on the stream's clock
	Policies        []result `json:"policies"`
}

type result struct {
	Policy             string  `json:"policy"`
	Payoff             float64 `json:"payoff"`               // mean per impression
	PayoffUtilityOrder float64 `json:"payoff_utility_order"` // likewise, if ranked by utility
	PayoffFilmMeans    float64 `json:"payoff_film_means"`    // likewise, with each film's mean rating known
	PayoffBest         float64 `json:"payoff_best"`          // likewise, for the best ranking in hindsight
	Gain               float64 `json:"gain"`                 // payoff − payoff_utility_order
	GainStderr         float64 `json:"gain_stderr"`
	// Tenths are the mean payoffs per impression of each tenth of the impressions.
	Tenths [10]float64 `json:"payoff_tenths"`

	PayoffsApplied int64 `json:"payoffs_applied"`
	PayoffsFed     int64 `json:"payoffs_fed"`
	PayoffsQueued  int64 `json:"payoffs_queued"`

	MeanInFlight float64 `json:"mean_in_flight"` // impressions
	Overdue      float64 `json:"overdue"`        // share of payoffs

	Seconds              float64          `json:"seconds"`
	ImpressionsPerSecond float64          `json:"impressions_per_second"`
	WorkerCPUMicros      float64          `json:"worker_cpu_us_per_impression"`
	Account              map[string]int64 `json:"account"`

	Judged *evaluate.Report `json:"judged,omitempty"` // estimates of other policies by this one's log
}

func newReport(opt *options) *report {
	r := &report{Impressions: opt.impressions, Partitions: opt.partitions, Seed: opt.seed, Late: opt.late,
		Unanswered: opt.patience()}
	if opt.late < 0 {
		r.Late = asInTheData
	}
	return r
}

func (r *report) describe(s *data.Stream) {
	r.Users, r.IntervalSeconds = s.Users(), s.Config().Interval.Seconds()
}

func (p *play) result(a *account, seconds float64, cpu time.Duration) result {
	t := &p.players.tally
	n := float64(p.opt.impressions)
	gain, stderr := t.gain()
	row := result{
		Policy: p.policy, Payoff: t.mean(t.payoff), PayoffUtilityOrder: t.mean(t.byUtility), PayoffFilmMeans: t.mean(t.byMeans), PayoffBest: t.mean(t.best),
		Gain: gain, GainStderr: stderr,
		PayoffsApplied: a.counts["payoffs.applied"], PayoffsFed: a.fed, PayoffsQueued: a.queued,
		MeanInFlight: t.mean(t.inFlight), Overdue: t.mean(float64(t.overdue)),
		Seconds: seconds, ImpressionsPerSecond: n / p.whole.Seconds(),
		WorkerCPUMicros: float64(cpu.Microseconds()) / n,
		Account:         a.counts,
	}
	for i := range t.tenths {
		row.Tenths[i] = t.tenths[i].mean()
	}
	return row
}

func (r *report) writeJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

func (r *report) writeTable(out io.Writer) error {
	late := "as late as the gaps between ratings"
	if k, ok := r.Late.(int); ok {
		late = fmt.Sprintf("%d impressions late", k)
	}
	fmt.Fprintf(out, "\n%d impressions per policy, of %d users, %d partitions, payoffs %s\n\n", r.Impressions, r.Users, r.Partitions, late)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "policy\tmean payoff\tgain\t±\tlast tenth\tapplied\tfed\tfed share\tin flight\toverdue\tseconds\timpressions/s\tCPU µs\t")
	for i := range r.Policies {
		p := &r.Policies[i]
		fmt.Fprintf(w, "%s\t%.4f\t%+.4f\t%.4f\t%.4f\t%d\t%d\t%.1f %%\t%.0f\t%.1f %%\t%.1f\t%.0f\t%.1f\t\n", p.Policy, p.Payoff,
			p.Gain, 1.96*p.GainStderr, p.Tenths[9], p.PayoffsApplied, p.PayoffsFed, 100*float64(p.PayoffsFed)/float64(max(1, p.PayoffsApplied)),
			p.MeanInFlight, 100*p.Overdue, p.Seconds, p.ImpressionsPerSecond, p.WorkerCPUMicros)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(r.Policies) > 0 {
		p := &r.Policies[0]
		fmt.Fprintf(out, "\nThe same users and windows: %.4f ranked by utility, %.4f had each film's mean rating been known all along, "+
			"%.4f by the best ranking for each user in hindsight.\n", p.PayoffUtilityOrder, p.PayoffFilmMeans, p.PayoffBest)
	}
	fmt.Fprintln(out, "Every account adds up: each impression ranked once and paid, each selection joined, each payoff applied once.")
	return r.writeJudged(out)
}
