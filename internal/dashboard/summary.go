package dashboard

import (
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// form is the version of a Summary. A later one only adds members.
const form = 1

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

// Account counts all records since the state began, in the partitions that the worker owns.
type Account struct {
	Impressions Impressions `json:"impressions"`
	Selections  Selections  `json:"selections"`
	Payoffs     Payoffs     `json:"payoffs"`
}

type Impressions struct {
	Read       int64 `json:"read"`
	Paid       int64 `json:"paid"`
	Defaulted  int64 `json:"defaulted"`
	Expired    int64 `json:"expired"`
	Unselected int64 `json:"unselected"`
	Duplicate  int64 `json:"duplicate"`
	Rejected   int64 `json:"rejected"`
	Pending    int64 `json:"pending"`
}

type Selections struct {
	Read      int64 `json:"read"`
	Joined    int64 `json:"joined"`
	Duplicate int64 `json:"duplicate"`
	Late      int64 `json:"late"`
	Orphan    int64 `json:"orphan"`
	Rejected  int64 `json:"rejected"`
	Parked    int64 `json:"parked"`
}

type Payoffs struct {
	Read      int64 `json:"read"`
	Applied   int64 `json:"applied"`
	Duplicate int64 `json:"duplicate"`
	Late      int64 `json:"late"`
	Orphan    int64 `json:"orphan"`
	Rejected  int64 `json:"rejected"`
	Parked    int64 `json:"parked"`
}

func accountOf(a *partition.Account) Account {
	i, s, p := &a.Impressions, &a.Selections, &a.Payoffs
	return Account{
		Impressions{a.Read[0], i.Paid, i.Defaulted, i.Expired, i.Unselected, i.Duplicate, i.Rejected, i.Pending},
		Selections{a.Read[1], s.Joined, s.Duplicate, s.Late, s.Orphan, s.Rejected, s.Parked},
		Payoffs{a.Read[2], p.Applied, p.Duplicate, p.Late, p.Orphan, p.Rejected, p.Parked},
	}
}

func (a Account) plus(b Account) Account {
	i, s, p, j, t, q := a.Impressions, a.Selections, a.Payoffs, b.Impressions, b.Selections, b.Payoffs
	return Account{
		Impressions{i.Read + j.Read, i.Paid + j.Paid, i.Defaulted + j.Defaulted, i.Expired + j.Expired, i.Unselected + j.Unselected,
			i.Duplicate + j.Duplicate, i.Rejected + j.Rejected, i.Pending + j.Pending},
		Selections{s.Read + t.Read, s.Joined + t.Joined, s.Duplicate + t.Duplicate, s.Late + t.Late, s.Orphan + t.Orphan,
			s.Rejected + t.Rejected, s.Parked + t.Parked},
		Payoffs{p.Read + q.Read, p.Applied + q.Applied, p.Duplicate + q.Duplicate, p.Late + q.Late, p.Orphan + q.Orphan,
			p.Rejected + q.Rejected, p.Parked + q.Parked},
	}
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

// Counts are a learner's sums in this process; see partition.Counterfactual and stream.LearnerValue.
type Counts struct {
	Ended     int64   `json:"ended"` // impressions, without duplicates and refused ones
	Payoffs   int64   `json:"payoffs"`
	PayoffSum float64 `json:"payoff_sum"`
	// PayoffSquares sums squares of payoffs. Counted and CountedSum are the changes of the weight with which selections in flight count as
	// ended, and of its payoffs.
	PayoffSquares    float64 `json:"payoff_squares"`
	Counted          float64 `json:"counted"`
	CountedSum       float64 `json:"counted_sum"`
	Early            int64   `json:"early,omitempty"` // ticks at which it was too early for values, see Learner.early
	Decisions        int64   `json:"decisions"`
	Ruled            int64   `json:"ruled,omitempty"`
	Known            int64   `json:"known"`
	First            int64   `json:"first"`
	Compared         int64   `json:"compared"`
	Outpaid          int64   `json:"outpaid"`
	Expected         int64   `json:"expected"`
	ExpectedSum      float64 `json:"expected_sum"`
	ExpectedVariance float64 `json:"expected_variance"`
	Weighed          int64   `json:"weighed"`
	Weights          float64 `json:"weights"`
	Squares          float64 `json:"squares"`
	WeighedSum       float64 `json:"weighed_sum"`
	Joined           int64   `json:"joined"`     // selections
	Unselected       int64   `json:"unselected"` // impressions
	Shared           int64   `json:"shared"`
	SharesSum        float64 `json:"shares_sum"`
	PayingSum        float64 `json:"paying_sum"`
}

func (c Counts) plus(o Counts) Counts  { return c.combine(o, 1) }
func (c Counts) minus(o Counts) Counts { return c.combine(o, -1) }

func (c Counts) combine(o Counts, sign float64) Counts {
	n := int64(sign)
	return Counts{c.Ended + n*o.Ended, c.Payoffs + n*o.Payoffs, c.PayoffSum + sign*o.PayoffSum, c.PayoffSquares + sign*o.PayoffSquares,
		c.Counted + sign*o.Counted, c.CountedSum + sign*o.CountedSum, c.Early + n*o.Early, c.Decisions + n*o.Decisions, c.Ruled + n*o.Ruled,
		c.Known + n*o.Known, c.First + n*o.First, c.Compared + n*o.Compared, c.Outpaid + n*o.Outpaid, c.Expected + n*o.Expected,
		c.ExpectedSum + sign*o.ExpectedSum, c.ExpectedVariance + sign*o.ExpectedVariance, c.Weighed + n*o.Weighed, c.Weights + sign*o.Weights, c.Squares + sign*o.Squares,
		c.WeighedSum + sign*o.WeighedSum, c.Joined + n*o.Joined, c.Unselected + n*o.Unselected, c.Shared + n*o.Shared,
		c.SharesSum + sign*o.SharesSum, c.PayingSum + sign*o.PayingSum}
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
	Time       int64   `json:"time"` // event time
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
