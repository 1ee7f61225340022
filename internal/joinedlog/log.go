package joinedlog

import (
	"time"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/policy/propensity"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// Query says what is asked for.
type Query struct {
	// Learner is whose decisions are asked for: its name, empty for the first that is met, and how it joins what follows them.
	Learner *config.Learner
	// Group is whose rankings count; empty: those of the first.
	Group string
	// From and To bound the time of impressions, To not among them; 0 is no bound.
	From, To event.Millis
	// Shadows are learners whose decisions are asked for besides, as rankings have recorded them.
	Shadows []string
	// Context tells whether contexts are asked for too.
	Context bool
	// HasSelections tells whether selections are records of their own.
	HasSelections bool
	// Parking is how long a record waits for what it belongs to.
	Parking time.Duration
	Limits  event.Limits
	Formats event.Formats
	// AsOf is how far event time has come at least when all is read; 0: as far as the log says.
	AsOf event.Millis
	// Accept, where it is not nil, says which rankings of the group are rows, of whichever learner: it is asked of each with the number that
	// the row would have. Impressions are not needed then, Log.Names and Log.Outcomes without Selected are all that is known, and there is
	// nothing to be played.
	Accept func(row int32, r *event.Ranking) bool
	// Progress, where it is not nil, is told now and then how far event time has come, how many records were read, and which share of all
	// that there is.
	Progress func(at event.Millis, records int64, share float64)
}

// Log is what was read.
type Log struct {
	Names    []string  // of items, by number
	Outcomes []Outcome // by row
	// End is how far event time has come: the least, over the topics, of the newest time.
	End         event.Millis
	First, Last event.Millis // of the rows' times
	Longest     int          // list of candidates
	Group       string
	Learner     string
	Policy      string                // the latest that decided
	Selections  propensity.Selections // all that were shown as ranked
	Counts      Counts
	// Notes tell people what they should know of what was read.
	Notes []string

	spool *spool
}

// Counts are of what was read.
type Counts struct {
	Records    [event.Topics]int64 // by topic
	Refused    [event.Topics]int64 // of them could not be read
	Halves     int64               // rankings without their impression
	Uncertain  int64               // rankings whose order of utilities the learner was not certain of; they are no rows
	Immature   int64               // rows that are too young to count, paid or not
	Unselected int64
	Unpaid     int64 // selected, and no payoff came
	Paid       int64
	Others     int64 // rankings of other learners
	Replaced   int64 // rows that were shown in the order of utility, and not as ranked
}

// How a row ended.
type How uint8

// The ways to end.
const (
	Immature How = iota // or it may not end yet, or is too young to count
	Unselected
	Unpaid
	Paid
	Replaced // shown in the order of utility
)

// Outcome is what became of a row.
type Outcome struct {
	Payoff   float64 // raw units; of Paid
	Selected int32   // the utility rank of the selected item; meaningless where there is none
	How      How
}

// Close removes what lies on disk.
func (l *Log) Close() error { return l.spool.close() }

// Kind is what an Event tells.
type Kind uint8

// The kinds of events.
const (
	Decided     Kind = iota + 1
	WasSelected      // the user selected the item
	PaidPart         // of several payoffs one came
	WasPaid          // the payoff came, or the last of several
	NeverPaid        // none came by the deadline
	NotSelected      // nor did a selection
)

// Event is one event of the log. Its slices are valid until the next.
type Event struct {
	Kind Kind
	Row  int32
	At   event.Millis // how far event time has come
	Decision
	Utility    float64 // the user's own estimate; of WasSelected
	HasUtility bool
	Payoff     float64      // raw; of WasPaid, and for PaidPart what all until now come to
	Age        event.Millis // from the decision's Began on; of WasPaid and PaidPart
}

// Decision is what was decided, of Decided.
type Decision struct {
	Time, Began event.Millis
	Items       []int32 // numbers in Log.Names, by utility rank, 0 the lowest
	Order       []int32 // utility ranks in the order shown
	// Propensities are the recorded ones that the selection falls on Order[k]; empty where there are none.
	Propensities []float64
	// Shadows are orders as Order is, one for each of Query.Shadows; empty where that has not decided.
	Shadows [][]int32
	// About is the impression in Protobuf where contexts are asked for, of which nothing counts but the utilities and the context; candidates are
	// in the order of Items. It is empty where the impression is not known.
	About []byte
}
