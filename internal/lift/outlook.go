package lift

import (
	"cmp"
	"slices"

	"github.com/ranker-worker/ranker-worker/internal/joinedlog"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/experiment"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// payoff is a change of a row's payoff, or its end.
type payoff struct {
	at  event.Millis
	raw float64
	row int32
	how joinedlog.How
}

// Came is for joinedlog.Query: it notes when payoffs come.
func (u *Units) Came(row int32, at event.Millis, how joinedlog.How, raw float64) {
	if u.learn(row, at, how, raw); how != joinedlog.Immature {
		u.payoffs = append(u.payoffs, payoff{at, raw, row, how})
	}
}

// Lags adds up the run-offs of all partitions, as of the last bucket that has ended by a time, as partitions do. Due is the time at which the
// first units will have passed their deadlines in them; 0 without any.
func (u *Units) Lags(end event.Millis) (totals experiment.LagTotals, due event.Millis) {
	e := u.Experiment
	partitions := map[int32]experiment.RunOffs{}
	replaced, worth := make([]bool, len(u.all)), make([]float64, len(u.all))
	var payoffs []payoff
	for _, p := range u.payoffs {
		k, ok := slices.BinarySearchFunc(u.all, p.row, func(x unit, row int32) int { return cmp.Compare(x.row, row) })
		if !ok { // of another run
			continue
		}
		p.row = int32(k)
		payoffs = append(payoffs, p)
		replaced[k] = replaced[k] || p.how == joinedlog.Replaced
	}
	for row := range u.all {
		x := &u.all[row]
		r := partitions[x.partition]
		if r == nil {
			r = e.NewRunOffs(u.Horizon)
			partitions[x.partition] = r
		}
		if !replaced[row] {
			of, _ := r.Of(int(x.group))
			of.Enter(int(x.arm), x.began, experiment.Unit(1, x.z()))
		}
	}
	for _, p := range payoffs {
		x := &u.all[p.row]
		now, ok := u.worthOf(p.how, p.raw)
		if !ok || replaced[p.row] {
			continue
		}
		r, _ := partitions[x.partition].Of(int(x.group))
		r.Pay(int(x.arm), x.began, p.at, experiment.PaidInParts(worth[p.row], now, x.z(), p.how == joinedlog.Paid))
		worth[p.row] = now
	}
	totals = e.NewLagTotals()
	for _, r := range partitions {
		r.EndUpTo(end)
		totals.AddAll(r)
		if first := r.FirstDue(); first > 0 && (due == 0 || first < due) {
			due = first
		}
	}
	return totals, due
}

// Outlook compares an arm with the control by units of all ages.
type Outlook struct {
	Units int64 `json:"units"` // of both
	Due   int64 `json:"due"`   // of these, past their deadlines
	// SoFar is nil, and SoFarWhy says why, where it is not known.
	SoFar    *experiment.Interval `json:"so_far,omitempty"`
	SoFarIs  string               `json:"so_far_is,omitempty"` // ahead, behind or open
	SoFarWhy string               `json:"so_far_why,omitempty"`
	// End is nil if refused. It has no upper bound before the first deadlines.
	End    *experiment.Interval `json:"in_the_end,omitempty"`
	EndIs  string               `json:"in_the_end_is"` // better, worse, open or refused
	EndWhy string               `json:"in_the_end_why,omitempty"`
	From   string               `json:"known_from,omitempty"` // time of the first deadlines, while they are to come
	// Explained is the share of the variance of End that covariates take away. BreakEven is the multiple of the control's later payoffs that the
	// arm needs to draw level.
	Explained float64 `json:"explained,omitempty"`
	BreakEven float64 `json:"break_even,omitempty"`
	// Forecast is nil where it is not known. It is no proof.
	Forecast *experiment.Forecast `json:"forecast,omitempty"`
	Timing   string               `json:"timing,omitempty"` // of payoffs: as control, sooner or later
}

// outlook returns an arm's outlook as of a time.
func (u *Units) outlook(arm int, totals experiment.LagTotals, due, end event.Millis) *Outlook {
	h, no := partition.RecordedHistory(u.Experiment, u.Horizon, u.late, end)
	of := u.Experiment.Outlook(arm, totals, h, no)
	o := &Outlook{Units: of.Units, Due: of.Due, SoFarIs: of.Ahead(), SoFarWhy: of.SoFarWhy, EndIs: of.End.Verdict.String(), EndWhy: of.End.Why,
		Timing: of.Timing.String()}
	if of.SoFarWhy == "" {
		o.SoFar = &of.SoFar
	}
	if of.End.Verdict != experiment.Refused {
		o.End, o.Explained, o.BreakEven, o.Forecast = &of.End.Interval, of.End.Explained, of.End.BreakEven, of.End.Forecast
	}
	if due > end {
		o.From = stamp(due)
	}
	return o
}

// outlooks adds the outlooks of a report's arms. An arm out of service has none, since only the control goes on.
func (u *Units) outlooks(r *Report, end event.Millis) {
	if u.Experiment.Never() {
		return
	}
	totals, due := u.Lags(end)
	for k := range r.Arms {
		if a := &r.Arms[k]; !a.Control && a.Out == nil {
			a.Outlook = u.outlook(u.Experiment.Index(a.Arm), totals, due, end)
		}
	}
}
