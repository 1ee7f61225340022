package joinedlog

import (
	"time"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/policy/propensity"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Query selects the log to read.
type Query struct {
	// Learner is the learner to read, by name, or the first found if that is empty, with its settings of the join.
	Learner *config.Learner
	// Group is the group whose rankings count; empty for the first found.
	Group string
	// From and To bound impressions' times, To excluded; 0 is no bound.
	From, To event.Millis
	// Shadows are learners whose recorded decisions are read, too.
	Shadows []string
	// Context reads contexts, and categories for caps, too.
	Context bool
	// HasSelections says that there is a selections topic.
	HasSelections bool
	// Parking is the time a record waits for its impression.
	Parking time.Duration
	Limits  event.Limits
	Formats event.Formats
	// AsOf is the least event time at the end; 0: as in the log.
	AsOf event.Millis
	// Accept, unless nil, selects the rankings of the group, of any learner, that are rows; row is the number that the row would
	// have. Impressions are then not read: Log has only Names, and Outcomes without Selected, and no events.
	Accept func(row int32, r *event.Ranking) bool
	// Came, unless nil, is called with Accept when a row is selected, when its payoff changes or when it ends, with the event time. Immature
	// and Replaced come with the selection. Paid comes with the payoff, or the sum so far, also behind Replaced; Unpaid and Unselected without.
	Came func(row int32, at event.Millis, how How, payoff float64)
	// Again, unless nil, is called before Accept and Came are called for all rows again, since a file is not in the order of time.
	Again func()
	// Progress, unless nil, is called now and then with the event time, the number of records, and the share read.
	Progress func(at event.Millis, records int64, share float64)
}

// Log is the joined log.
type Log struct {
	Names    []string  // of items, by number
	Outcomes []Outcome // by row
	// End is the event time at the end: the least, over topics, of the newest time.
	End         event.Millis
	First, Last event.Millis // times of rows
	Longest     int          // longest list of candidates
	Shadows     []string     // all that have decided, if the query has some
	Group       string
	Learner     string
	Policy      string                // of the last decision
	Selections  propensity.Selections // of rows shown as ranked
	Counts      Counts
	// Notes are remarks for people.
	Notes []string

	spool *spool
}

// Counts are numbers of records and rows.
type Counts struct {
	Records    [event.Topics]int64 // by topic
	Refused    [event.Topics]int64 // of these, unreadable
	Halves     int64               // rankings without impression
	Uncertain  int64               // rankings with an uncertain order of utilities, which are no rows
	Immature   int64               // rows too young to count, paid or not
	Unselected int64
	Unpaid     int64 // selected, without a payoff
	Paid       int64
	Others     int64 // rankings of other learners
	Ruled      int64 // rows whose order pins or caps could have changed
	Replaced   int64 // rows shown in the order of utility instead
}

// How is the way in which a row ended.
type How uint8

// The ways to end.
const (
	Immature How = iota // still open, or too young to count
	Unselected
	Unpaid
	Paid
	Replaced // shown in the order of utility
)

// Outcome is the outcome of a row.
type Outcome struct {
	Payoff   float64 // raw units; of Paid
	Selected int32   // utility rank of the selected item; meaningless without one
	How      How
	Refused  bool // Unpaid by a payoff outside of the range, with out_of_range: refuse. Such a row has no default payoff
}

// end sets how a row ended, unless it is Replaced.
func (o *Outcome) end(how How, payoff float64) {
	if o.How != Replaced {
		o.How, o.Payoff = how, payoff
	}
}

// Close deletes the temporary file.
func (l *Log) Close() error { return l.spool.close() }

// Kind is the kind of an Event.
type Kind uint8

// The kinds of events.
const (
	Decided     Kind = iota + 1
	WasSelected      // a selection
	PaidPart         // a partial payoff
	WasPaid          // the payoff, or the last of several
	NeverPaid        // no payoff by the deadline
	NotSelected      // no selection by the deadline
)

// Event is an event of the log. Its slices are valid until the next.
type Event struct {
	Kind Kind
	Row  int32
	At   event.Millis // event time
	Decision
	Utility    float64 // the user's own rating; of WasSelected
	HasUtility bool
	Payoff     float64      // raw; of WasPaid, and for PaidPart the sum so far
	Age        event.Millis // since the decision's Began; of WasPaid and PaidPart
}

type Decision struct {
	Time, Began event.Millis
	Items       []int32 // numbers in Log.Names, by utility rank, 0 the lowest
	Order       []int32 // utility ranks in the order shown
	// Propensities are the recorded probabilities that the selection falls on Order[k]; empty without any.
	Propensities []float64
	// Shadows are orders like Order, one for each of Query.Shadows; empty if it has not decided.
	Shadows [][]int32
	// About is the impression in Protobuf, if contexts are read: utilities and context only, candidates in the order of Items. It
	// is empty if the impression is unknown.
	About []byte
}
