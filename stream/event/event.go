package event

import "math"

type Topic uint8

// Input topics come first, so that they index arrays of Inputs length.
const (
	Impressions Topic = iota
	Selections
	Payoffs
	Rankings

	Inputs = 3 // number of input topics
	Topics = 4
)

// Millis is a time in milliseconds since the Unix epoch, truncated from RFC 3339.
type Millis = int64

// Decision is the part of a ranking that its update, and an adoption after a crash, needs.
type Decision struct {
	Group        string
	Policy       string
	Delay        string
	Partition    int32
	Offset       int64 // of the impression
	Layout       int
	Propensities []float64 // empty: none
	Expected     []float64 // by position, see Millionths; empty: none
	Instance     int32     // -1: none
	Explored     bool
	// Ranks holds each item's utility rank, 0 the lowest, if the learner estimates the order of utilities. Undecided holds, ascending, the
	// ranks whose item is not certainly above the one before, or 0 alone where the policy decided by a guess.
	Ranks     []int32
	Undecided []int32
	// Decided is the policy's order, as positions in Ranking.Items, if pins or caps could have changed it; else empty. Propensities are then
	// those of the ranking shown.
	Decided []int32
	// Began is the time from which deadlines are counted: the impression's time, or event time at its ranking if that was later.
	Began             Millis
	Seed              uint64 // key of the random numbers used; 16 hex digits on the wire
	SelectionDeadline Millis
	HasSelection      bool // false: no selections topic, hence no selection deadline
	PayoffDeadline    Millis
	Assignment        Assignment // zero: the impression is in no experiment
	Verdict           Verdict    // zero: none
	Shadows           []Shadow
}

// Assignment is an impression's arm in an experiment.
type Assignment struct {
	Experiment  string
	Run         int32 // of the experiment, from 1
	Arm         string
	Probability float64 // the arm's share
	Unit        []byte  // by user: group and period; else empty
	Fallback    bool    // another arm ranked it, because a guard tripped
	// Covariate predicts the unit's payoff, and was known before its ranking: from 0 to 1, in units of 10⁻⁶; 0 by user.
	Covariate int32
}

// Verdict holds the bounds by which a guard stopped an assignment's arm. It stands in the first ranking of each partition that read them.
type Verdict struct {
	Run          int32
	Arm          string
	Units        int64   // units of arm and control together
	Lower, Upper float64 // of the arm's lift, in payoff ranges
}

// Shadow is the order in which a shadow learner would have shown an impression's items.
type Shadow struct {
	Name  string
	Order []int32 // positions in Ranking.Items
}

// MaxExpected bounds the absolute value of an expected payoff in a decision.
const MaxExpected = 1_000_000

const millionths = 1_000_000 // in one

// Millionths encodes an expected payoff for records and stored entries, in units of 10⁻⁶. It rounds to the nearest, ties away from 0, and
// clamps to ±MaxExpected. NaN becomes -MaxExpected.
func Millionths(x float64) int64 {
	if !(x >= -MaxExpected) {
		x = -MaxExpected
	}
	return int64(math.Round(min(x, MaxExpected) * millionths))
}

// FromMillionths returns n units of 10⁻⁶, as the float64 that their decimal form is read as.
func FromMillionths(n int64) float64 { return float64(n) / millionths }

type Ranking struct {
	ID       []byte
	Learner  []byte
	Time     Millis
	Items    [][]byte
	Decision Decision
}
