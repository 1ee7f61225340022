package event

import "math"

// Topic is one of the worker's topics.
type Topic uint8

// The input topics come first, so that they index arrays of Inputs length.
const (
	Impressions Topic = iota
	Selections
	Payoffs
	Rankings

	Inputs = 3 // number of input topics
	Topics = 4
)

// Millis is a point in time: milliseconds since the Unix epoch. Finer digits of a record's RFC 3339 time are cut off.
type Millis = int64

// Candidate is one item that may be shown.
type Candidate struct {
	Item    []byte
	Utility float64 // 0 where the impression has no utilities
}

// Impression asks for one ranking. The byte slices of a decoded record alias the decoder's memory and are valid
// until its next call.
type Impression struct {
	ID           []byte
	Learner      []byte // empty: the default learner
	Time         Millis
	HasTime      bool
	Candidates   []Candidate
	HasUtilities bool
	// Filled are the positions of candidates that were sent without a utility, where others have one, ascending. Their Utility is the median
	// of the others'.
	Filled  []int32
	User    []byte // whom experiments by user go by; empty: not named
	Context Context
}

// Selection says which item the user selected.
type Selection struct {
	ID         []byte
	Item       []byte
	Time       Millis
	HasTime    bool
	Utility    float64 // the user's own estimate
	HasUtility bool
	// ByUtility: the candidates were shown in the order of utility, and not as ranked.
	ByUtility bool
}

// ShownByUtility is the only value of a selection's field "shown".
const ShownByUtility = "utility"

// Payoff is the payoff (reward) of a selection.
type Payoff struct {
	ID      []byte
	Payoff  float64 // raw units
	Time    Millis
	HasTime bool
	Item    []byte // empty: not named
	EventID []byte // empty: none
}

// Decision is the part of a ranking record that its update, and an adoption after a crash, will need.
type Decision struct {
	Group        string
	Policy       string
	Delay        string
	Partition    int32
	Offset       int64 // of the impression
	Layout       int
	Propensities []float64 // empty: none
	Expected     []float64 // of each item, by position: see Millionths; empty: none
	Instance     int32     // -1: none
	Explored     bool
	// Ranks holds each item's utility rank, 0 the lowest, where the learner estimates the order of utilities.
	// Undecided holds, ascending, the ranks whose item is not certainly above the one before.
	Ranks     []int32
	Undecided []int32
	// Began is from when the deadlines are counted: the impression's time, or how far event time had come if that was later.
	Began             Millis
	Seed              uint64 // key of the random numbers used; 16 hex digits on the wire
	SelectionDeadline Millis
	HasSelection      bool // false: no selections topic, hence no selection deadline
	PayoffDeadline    Millis
	Assignment        Assignment // zero: the impression is in no experiment
	Verdict           Verdict    // zero: none
	Shadows           []Shadow
}

// Assignment says which arm of an experiment an impression was given.
type Assignment struct {
	Experiment  string
	Run         int32 // of the experiment, from 1
	Arm         string
	Probability float64 // the arm's share
	Unit        []byte  // by user: group and period of the assignment; else empty
	Fallback    bool    // another arm has ranked it, because a guard has tripped
}

// Verdict says by which bounds the guard of an assignment's experiment took an arm out of service. It stands in the first ranking of each
// partition that knew.
type Verdict struct {
	Run          int32
	Arm          string
	Units        int64   // of the arm and the control together that the bounds rest on
	Lower, Upper float64 // of the arm's lift, in payoff ranges
}

// Shadow is the order in which a learner would have shown an impression's items.
type Shadow struct {
	Name  string
	Order []int32 // positions in Ranking.Items
}

// MaxExpected bounds an item's expected payoff in a decision, in either direction.
const MaxExpected = 1_000_000

const millionths = 1_000_000 // in one

// Millionths encodes an item's expected payoff for records and stored entries, as a whole number of units of 10⁻⁶. It
// rounds to the nearest, ties away from 0, and clamps to ±MaxExpected. NaN becomes -MaxExpected.
func Millionths(x float64) int64 {
	if !(x >= -MaxExpected) {
		x = -MaxExpected
	}
	return int64(math.Round(min(x, MaxExpected) * millionths))
}

// FromMillionths returns n units of 10⁻⁶, as the float64 that their decimal form is read as.
func FromMillionths(n int64) float64 { return float64(n) / millionths }

// Ranking is the worker's answer to an impression.
type Ranking struct {
	ID       []byte
	Learner  []byte
	Time     Millis
	Items    [][]byte
	Decision Decision
}
