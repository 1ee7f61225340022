package dashboard

import (
	"cmp"
	"math"
	"slices"

	"github.com/ranker-worker/ranker-worker/stream"
)

// The bounds of a Page, besides those of its summaries.
const (
	pagePartitions = 512
	pageItems      = 16
	pageRankings   = 2 // of a learner
	pageLetters    = 20
)

// Page is the content of /page/live.json: the group, as its workers show themselves.
type Page struct {
	Form           int             `json:"form"`
	Group          string          `json:"group"`
	Now            int64           `json:"now"`                 // milliseconds since 1970, by the clock of the serving worker
	Worker         string          `json:"worker"`              // ID of the serving worker
	Alone          string          `json:"alone,omitempty"`     // why only that worker is shown, if so
	Simulated      bool            `json:"simulated,omitempty"` // the workers' clock is simulated
	Seconds        int64           `json:"seconds"`             // span of the learners' values and of the history
	Workers        []WorkerRow     `json:"workers"`
	Rates          Rates           `json:"rates"`
	P50            *float64        `json:"p50"` // seconds from impression to ranking, recently; null: none was ranked
	P99            *float64        `json:"p99"`
	Lag            [3]int64        `json:"lag"` // records not yet read, of impressions, selections and payoffs
	Account        Account         `json:"account"`
	Learners       []LearnerPage   `json:"learners"`
	MoreLearners   int             `json:"more_learners"`
	Arms           []Arm           `json:"arms"` // of experiments
	Partitions     []PartitionPage `json:"partitions"`
	MorePartitions int             `json:"more_partitions"`
	Running        int             `json:"running"` // of all partitions
	Rankings       []Ranking       `json:"rankings"`
	DeadLetters    []Letter        `json:"dead_letters"`
}

type WorkerRow struct {
	ID         string  `json:"id"`
	Version    string  `json:"version"`
	Up         float64 `json:"up"`  // seconds since it started
	Age        float64 `json:"age"` // seconds since it published this
	Partitions int     `json:"partitions"`
	Rankings   float64 `json:"rankings"` // per second
	Outside    string  `json:"outside,omitempty"`
}

// PartitionPage is a partition with its owner.
type PartitionPage struct {
	Partition
	Worker string `json:"worker"`
}

// LearnerPage is a learner of the group. Values cover the history, in the payoffs' own unit; null if too little is known. Without impressions
// they stand, but for payoffs and deadlines: see idleAfter.
type LearnerPage struct {
	Learner
	// Payoff is per impression: Selecting times PerSelection, each over the impressions with a known value.
	Payoff       *float64   `json:"payoff"`
	PayoffError  *float64   `json:"payoff_error"` // half the length of its 95 % interval
	Early        string     `json:"early"`        // why it is too early for Payoff, if so
	FirstAt      int64      `json:"first_at"`     // then, by when Payoff is known at the latest, at the present traffic; 0: not known
	LastAt       int64      `json:"last_at"`      // when its last impression was ranked, or, if none was since, when the serving worker began
	Selecting    *float64   `json:"selecting"`    // share of impressions with a selection; null also without a selections topic
	SelectingOf  int64      `json:"selecting_of"` // impressions
	PerSelection *float64   `json:"per_selection"`
	PaidFor      int64      `json:"paid_for"` // selections of PerSelection: paid, past their deadline, and the weight of those in flight
	ByUtility    *float64   `json:"by_utility"`
	GainError    *float64   `json:"gain_error"`  // half the length of the 95 % interval of Payoff minus ByUtility; null: not known
	How          string     `json:"how"`         // the estimate used
	Ended        int64      `json:"ended"`       // impressions
	Outpaid      *float64   `json:"outpaid"`     // share of decisions in which another candidate pays better than the favourite
	FirstShare   *float64   `json:"first_share"` // share that showed the favourite first
	ItemRows     []ItemPage `json:"item_rows"`
}

type ItemPage struct {
	Name      string   `json:"name"`
	First     *float64 `json:"first"`     // share of recent decisions that show it first
	Favourite *float64 `json:"favourite"` // share in which it is the favourite
	Worth     float64  `json:"worth"`     // number of payoffs behind the mean
	Mean      *float64 `json:"mean"`      // null: none, or more than half of its selections wait for their payoff
	Low       float64  `json:"low"`       // lower end of the 95 % interval of the mean
	High      float64  `json:"high"`      // upper end
}

// shown is a worker's summary and its age.
type shown struct {
	Summary
	age float64 // seconds
}

// combine makes the page from all workers' summaries, the serving worker's first.
func combine(all []shown, sums map[string]Counts, now int64) *Page {
	p := &Page{Form: form, Now: now, Workers: []WorkerRow{}, Learners: []LearnerPage{}, Partitions: []PartitionPage{}, Rankings: []Ranking{}, Arms: []Arm{}, Account: Account{},
		DeadLetters: []Letter{}}
	latencies := make([]int64, len(stream.LatencyBounds())+1)
	for i := range all {
		s := &all[i]
		p.Workers = append(p.Workers, WorkerRow{s.ID, s.Version, float64(now-s.Started) / 1000, s.age, len(s.Partitions) + s.MorePartitions, s.Rates.Rankings, s.Outside})
		p.Rates = p.Rates.plus(s.Rates)
		if len(s.Latencies) == len(latencies) {
			for k, n := range s.Latencies {
				latencies[k] += n
			}
		}
		for name, n := range s.Account {
			p.Account[name] += n
		}
		p.Running += s.Running
		for topic, n := range s.Lag {
			p.Lag[topic] += n
		}
		for _, one := range s.Partitions {
			p.Partitions = append(p.Partitions, PartitionPage{one, s.ID})
		}
		p.MorePartitions += s.MorePartitions
		p.MoreLearners = max(p.MoreLearners, s.MoreLearners)
		if len(p.Arms) == 0 { // while a partition changes hands two may report
			p.Arms = append(p.Arms, s.Arms...)
		}
		p.Rankings, p.DeadLetters = append(p.Rankings, s.Rankings...), append(p.DeadLetters, s.DeadLetters...)
		for k := range s.Learners {
			p.addLearner(&s.Learners[k])
		}
	}
	p.P50, p.P99 = quantile(0.5, stream.LatencyBounds(), latencies), quantile(0.99, stream.LatencyBounds(), latencies)
	byNumber := func(a, b PartitionPage) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Worker, b.Worker))
	}
	slices.SortFunc(p.Partitions, byNumber)
	if extra := len(p.Partitions) - pagePartitions; extra > 0 {
		p.Partitions, p.MorePartitions = waitingFirst(p.Partitions)[:pagePartitions], p.MorePartitions+extra
		slices.SortFunc(p.Partitions, byNumber)
	}
	slices.SortStableFunc(p.Rankings, func(a, b Ranking) int { return cmp.Compare(b.Time, a.Time) })
	p.Rankings = latest(p.Rankings)
	slices.SortStableFunc(p.DeadLetters, func(a, b Letter) int { return cmp.Compare(b.At, a.At) })
	p.DeadLetters = first(p.DeadLetters, pageLetters)
	for k := range p.Learners {
		p.Learners[k].value(sums[p.Learners[k].Name])
	}
	return p
}

// latest keeps the first rankings of each learner.
func latest(all []Ranking) []Ranking {
	kept, of := []Ranking{}, map[string]int{}
	for _, r := range all {
		if of[r.Learner]++; of[r.Learner] <= pageRankings && len(of) <= mostLearners {
			kept = append(kept, r)
		}
	}
	return kept
}

func (p *Page) addLearner(l *Learner) {
	at := slices.IndexFunc(p.Learners, func(o LearnerPage) bool { return o.Name == l.Name })
	if at < 0 {
		if len(p.Learners) == mostLearners {
			p.MoreLearners = max(p.MoreLearners, 1)
			return
		}
		one := LearnerPage{Learner: *l}
		one.TopItems = slices.Clone(l.TopItems)
		p.Learners = append(p.Learners, one)
		return
	}
	p.Learners[at].merge(l)
}

// value sets the values over the history, and scales items to the payoffs' own unit.
func (l *LearnerPage) value(c Counts) {
	l.Ended, l.PaidFor, l.SelectingOf = c.Ended, int64(math.Round(c.paidFor())), c.Joined+c.Unselected
	if l.Early = l.early(); l.Early == "" {
		l.Payoff, l.PayoffError = c.perImpression(l.PayoffRange)
		l.Selecting = share(c.Joined, l.SelectingOf)
		if each, ok := c.perSelection(l.PayoffRange); ok {
			l.PerSelection = rounded(each)
		}
		l.ByUtility, l.GainError, l.How = c.byUtility(l.PayoffRange)
		if l.Payoff != nil {
			unselected, unpaid := l.open()
			l.PayoffError = rounded(*l.PayoffError + (unselected+unpaid)*math.Abs(*l.Payoff))
		}
	}
	l.Outpaid, l.FirstShare = share(c.Outpaid, c.Compared), share(c.First, c.Known)
	l.sortItems()
	low, width := l.PayoffRange[0], l.PayoffRange[1]-l.PayoffRange[0]
	l.ItemRows = []ItemPage{}
	for _, i := range first(l.TopItems, pageItems) {
		mean, from, to := i.interval()
		row := ItemPage{Name: i.Name, Worth: i.W, Low: *rounded(low + width*from), High: *rounded(low + width*to)}
		if l.Decisions > 0 {
			row.First = rounded(i.First / l.Decisions)
		}
		if l.Favourites > 0 {
			row.Favourite = rounded(i.Favourite / l.Favourites)
		}
		if i.W > 0 && i.Open <= i.W {
			row.Mean = rounded(low + width*mean)
		}
		l.ItemRows = append(l.ItemRows, row)
	}
	l.TopItems = nil
}
