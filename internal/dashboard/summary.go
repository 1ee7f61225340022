package dashboard

import (
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// form is the version of a Summary. Only the members of a head keep their meaning in all forms.
const form = 2

// Summary is one worker's data, for its own page and, as JSON, for the other workers of its group. Times are
// milliseconds since 1970 by the worker's clock, unless stated otherwise. All lists are bounded; see clip.go.
type Summary struct {
	Form           int         `json:"form"`
	ID             string      `json:"id"`
	Version        string      `json:"version"`
	Started        int64       `json:"started"`
	Rates          Rates       `json:"rates"`
	Latencies      []int64     `json:"latencies"` // of the last seconds, by stream.LatencyBounds
	Account        Account     `json:"account"`
	Outside        string      `json:"outside,omitempty"` // why it stays outside of its group
	Partitions     []Partition `json:"partitions"`
	MorePartitions int         `json:"more_partitions,omitempty"` // not listed
	Running        int         `json:"running"`                   // partitions at work, of all
	Lag            [3]int64    `json:"lag"`                       // of all partitions
	Learners       []Learner   `json:"learners"`
	MoreLearners   int         `json:"more_learners,omitempty"`
	Arms           []Arm       `json:"arms,omitempty"`
	Rankings       []Ranking   `json:"rankings"` // latest first
	DeadLetters    []Letter    `json:"dead_letters"`
}

// Account counts records since the state began, in the partitions that the worker owns, by topic and outcome; see [partition.Account.Named].
type Account map[string]int64

// Rates are per second, over the last seconds.
type Rates struct {
	Impressions float64 `json:"impressions"` // read; likewise below
	Selections  float64 `json:"selections"`
	Payoffs     float64 `json:"payoffs"`
	Rankings    float64 `json:"rankings"` // acknowledged
}

func (r Rates) plus(o Rates) Rates {
	return Rates{r.Impressions + o.Impressions, r.Selections + o.Selections, r.Payoffs + o.Payoffs, r.Rankings + o.Rankings}
}

type Partition struct {
	Number       int32    `json:"number"`
	Phase        string   `json:"phase"`
	Waits        string   `json:"waits,omitempty"` // why it waits or has stopped
	Lag          [3]int64 `json:"lag"`             // records not yet read, of impressions, selections and payoffs
	EventTimeLag *float64 `json:"event_time_lag"`  // seconds by which event time is behind the worker's clock; null: not known
	Pending      int64    `json:"pending"`         // pending impressions
	Parked       int64    `json:"parked"`          // parked selections and payoffs
	Unsaved      int64    `json:"unsaved"`         // bytes
}

func (p Partition) waits() bool { return p.Waits != "" }

// list adds a partition, also to the figures of all.
func (s *Summary) list(p Partition) {
	s.Partitions = append(s.Partitions, p)
	for topic, n := range p.Lag {
		s.Lag[topic] += n
	}
	if p.Phase == task.Running.String() {
		s.Running++
	}
}

// Learner is a configured learner. Payoffs are in payoff ranges, except PayoffRange.
type Learner struct {
	Name        string     `json:"name"`
	Policy      string     `json:"policy"`
	Delay       string     `json:"delay"`
	Rule        string     `json:"rule,omitempty"` // how rankings are made
	PayoffRange [2]float64 `json:"payoff_range"`
	Counts      Counts     `json:"counts"`

	PerImpression bool `json:"per_impression,omitempty"` // it maximises payoff per impression; else per selection

	// Horizon is the payoff horizon, and Timeout the selection timeout, 0 without a selections topic; in seconds.
	Horizon float64 `json:"horizon"`
	Timeout float64 `json:"timeout"`
	// Coming is the share of payoffs that come at the greatest ages seen so far.
	Coming float64 `json:"coming"`
	// Ranked counts impressions since the learner began, Resolved those of them that ended with a selection, Left those that ended without.
	Ranked   int64 `json:"ranked"`
	Resolved int64 `json:"resolved"`
	Left     int64 `json:"left"`

	Fed       int64    `json:"fed"`              // payoffs that decisions use
	Warmed    int64    `json:"warmed,omitempty"` // brought by a warm start
	Items     int64    `json:"items"`            // items met; an item of several partitions counts in each
	Awaited   int64    `json:"awaited"`          // selections whose payoff is awaited
	Queued    int64    `json:"queued"`           // payoffs in queues
	OnHold    int      `json:"on_hold"`          // partitions that wait for a payoff of one item
	HoldItem  string   `json:"hold_item,omitempty"`
	Instances int64    `json:"instances,omitempty"`
	Undecided int64    `json:"undecided_pairs"` // -1: the order of utilities is given
	Silence   *Silence `json:"silence,omitempty"`
	Depends   *Depends `json:"depends,omitempty"`

	Windows          []float64 `json:"windows,omitempty"` // from window 1 on; the last covers all beyond
	WindowSelections int64     `json:"window_selections,omitempty"`

	Decisions  float64 `json:"decisions"`  // behind TopItems, approximately
	Favourites float64 `json:"favourites"` // likewise, with a known favourite
	TopItems   []Item  `json:"top_items,omitempty"`
}

// Counts are a learner's sums in this process.
type Counts struct {
	partition.Value
	Ended      int64 // impressions, without duplicates and refused ones
	Joined     int64 // selections
	Unselected int64 // impressions
	Early      int64 `json:",omitempty"` // ticks at which it was too early for values, see Learner.early
}

func (c Counts) plus(o Counts) Counts  { return c.combine(o, 1) }
func (c Counts) minus(o Counts) Counts { return c.combine(o, -1) }

func (c Counts) combine(o Counts, sign int64) Counts {
	return Counts{c.Value.Plus(o.Value, float64(sign)), c.Ended + sign*o.Ended, c.Joined + sign*o.Joined,
		c.Unselected + sign*o.Unselected, c.Early + sign*o.Early}
}

// Silence describes selections in flight and payoffs' delays; see delay.SilenceStatus.
type Silence struct {
	Weight float64 `json:"weight"`
	Known  bool    `json:"known"`
	Seen   bool    `json:"seen"`
	Share  float64 `json:"share"`
	Median float64 `json:"median"` // seconds
	P90    float64 `json:"p90"`    // seconds
}

// Depends describes a contextual learner's model, in payoff ranges; see
// delay.ContextualStatus. It has the features with the largest effects.
type Depends struct {
	Payoffs    int64               `json:"payoffs"` // behind the model
	Deviations []delay.Deviation   `json:"deviations"`
	Features   []delay.Coefficient `json:"features,omitempty"`
	Groups     []delay.Groups      `json:"groups,omitempty"`
	Since      int64               `json:"since,omitempty"` // event time from which on payoffs count; absent: all count
}

// Item is an item that was recently often shown first, or often the favourite. W, R and Q are its policy.Evidence.
type Item struct {
	Name      string  `json:"name"`
	First     float64 `json:"first"`
	Favourite float64 `json:"favourite"`
	W         float64 `json:"w"`
	R         float64 `json:"r"`
	Q         float64 `json:"q"`
	Open      float64 `json:"open,omitempty"`
}

type Ranking struct {
	ID         string  `json:"id"`
	Learner    string  `json:"learner"`
	Partition  int32   `json:"partition"`
	Offset     int64   `json:"offset"`
	Time       int64   `json:"time"`  // event time
	Until      int64   `json:"until"` // event time at which workers forget the impression, and the page too
	Explored   bool    `json:"explored,omitempty"`
	Candidates int     `json:"candidates"`
	Shown      []Shown `json:"shown"` // the first of them
}

type Shown struct {
	Name       string  `json:"name"`
	Rank       int32   `json:"rank"` // by utility, 0 is the lowest; -1: not known
	Worth      float64 `json:"worth"`
	Mean       float64 `json:"mean"` // at its ranking, in the payoffs' own unit; meaningless unless Worth is above 0
	Propensity float64 `json:"propensity,omitempty"`
	Leader     int     `json:"leader"` // position of the leader that it follows: its own if it is a leader
}

type Letter struct {
	At        int64  `json:"at"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Reason    string `json:"reason"`
	Detail    string `json:"detail"`
}
