package experiment

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Stored values are words separated by spaces: the version, 1, the experiment's run, then values. Readers refuse unknown versions. A later
// version may have more words, and more numbers in each.

// Reasons to refuse stored text. ErrText: malformed. ErrRun: of another run, hence useless. ErrArms: of this run, with other arms, shares
// or control, which may change only with the run.
var (
	ErrText = errors.New("not an experiment's stored text")
	ErrRun  = errors.New("of another run of the experiment")
	ErrArms = errors.New("of the same run of the experiment with other arms, shares or another control")
)

// Version is the first word of a stored value.
const Version = "1"

// Words returns the words of a stored value behind the version. It fails with ErrText.
func Words(text string) ([]string, error) {
	w := strings.Split(text, " ")
	if w[0] != Version {
		return nil, fmt.Errorf("%w: version %.10q, known is %s", ErrText, w[0], Version)
	}
	return w[1:], nil
}

// Head writes the version and the run, with which each stored value of the experiment begins.
func (e *Experiment) Head(dst []byte) []byte {
	return strconv.AppendInt(append(dst, Version+" "...), int64(e.Run), 10)
}

// Words returns the words of a stored value behind Head. It fails with ErrText or ErrRun.
func (e *Experiment) Words(text string) ([]string, error) {
	w, err := Words(text)
	if err != nil {
		return nil, err
	}
	var run [1]int64
	if len(w) == 0 || !numbers(run[:], w[0]) {
		return nil, ErrText
	}
	if run[0] != int64(e.Run) {
		return nil, fmt.Errorf("%w: %d, this is %d", ErrRun, run[0], e.Run)
	}
	return w[1:], nil
}

// AppendCohort writes a cohort's sums, <units>:<X>:<Q>:<Z>:<S>:<M> for each arm in the order of names, with the sums of Counts.
func (e *Experiment) AppendCohort(dst []byte, by []Counts) []byte {
	dst = e.Head(dst)
	for _, c := range by {
		dst = appendNumbers(append(dst, ' '), c.N, c.X, c.Q, c.Z, c.S, c.M)
	}
	return dst
}

// ParseCohort reads the output of AppendCohort. It fails with ErrText or ErrRun.
func (e *Experiment) ParseCohort(text string) (by []Counts, err error) {
	words, err := e.Words(text)
	if err != nil {
		return nil, err
	}
	if len(words) != len(e.Arms) {
		return nil, ErrArms
	}
	for _, w := range words {
		var x [6]int64
		if !numbers(x[:], w) || !plausible(x[0], x[1:]...) {
			return nil, ErrText
		}
		by = append(by, Counts{x[0], x[1], x[2], x[3], x[4], x[5]})
	}
	return by, nil
}

// AppendTotals writes <arm>:<share>:<units>:<X>:<D>:<E>:<Z>:<S>:<M> for each arm in the order of names, with the sums of Sums in units of 2⁻²⁰. The
// control's share has an equals sign before it.
func (e *Experiment) AppendTotals(dst []byte, t Totals) []byte {
	dst = e.Head(dst)
	for arm, s := range t {
		dst = append(append(dst, ' '), e.label(arm)...)
		dst = appendNumbers(append(dst, ':'), s.N, s.X, s.D, s.E, s.Z, s.S, s.M)
	}
	return dst
}

// ParseTotals reads the output of AppendTotals. It fails with ErrText, ErrRun or ErrArms.
func (e *Experiment) ParseTotals(text string) (t Totals, err error) {
	words, err := e.Words(text)
	if err != nil {
		return nil, err
	}
	return e.TotalsOf(words)
}

// TotalsOf reads the words behind Head. It fails with ErrText or ErrArms.
func (e *Experiment) TotalsOf(words []string) (t Totals, err error) {
	if len(words) != len(e.Arms) {
		return nil, ErrArms
	}
	for arm, w := range words {
		rest, same := strings.CutPrefix(w, e.label(arm)+":")
		if !same {
			return nil, ErrArms
		}
		var x [7]int64
		if !numbers(x[:], rest) || x[0] < 0 || x[0] > mostUnits || x[1] < 0 || x[1] > x[0]*perTotal || x[3] < 0 || !plausible(0, x[4:]...) {
			return nil, ErrText
		}
		t = append(t, Sums{x[0], x[1], x[2], x[3], x[4], x[5], x[6]})
	}
	return t, nil
}

// label identifies an arm in stored totals, by name and share: totals of other shares are refused.
func (e *Experiment) label(arm int) string {
	mark := ""
	if arm == e.control {
		mark = "="
	}
	return e.Arms[arm].Name + ":" + mark + strconv.FormatFloat(e.Arms[arm].Share, 'g', -1, 64)
}

// AppendGroups writes the groups with an impression among those from one number up to another, <number>:<impressions>:<sum of payoffs>
// each, in units of 2⁻³⁰.
func (e *Experiment) AppendGroups(dst []byte, groups Groups, from, to int) []byte {
	dst = e.Head(dst)
	for k := from; k < to; k++ {
		if g := groups[k]; g != (Group{}) {
			dst = appendNumbers(append(dst, ' '), int64(k), g.N, g.X)
		}
	}
	return dst
}

// ParseGroups replaces groups from and up to the same numbers by the output of AppendGroups. It fails with ErrText or ErrRun, and then
// changes none.
func (e *Experiment) ParseGroups(text string, groups Groups, from, to int) error {
	words, err := e.Words(text)
	if err != nil {
		return err
	}
	read := make(Groups, to-from)
	last := int64(from) - 1
	for _, w := range words {
		var x [3]int64
		if !numbers(x[:], w) || x[0] <= last || x[0] >= int64(to) || !plausible(x[1], x[2]) {
			return ErrText
		}
		last = x[0]
		read[x[0]-int64(from)] = Group{x[1], x[2]}
	}
	copy(groups[from:to], read)
	return nil
}

// mostUnits bounds units in totals, and mostPayoffs sums in cohorts.
const (
	mostUnits   = 1 << 42
	mostPayoffs = 1 << 62
)

// plausible reports whether n units can have these sums of payoffs.
func plausible(n int64, sums ...int64) bool {
	for _, x := range sums {
		if x < 0 || x > mostPayoffs {
			return false
		}
	}
	return n >= 0 && n <= 1<<32
}

// within reports whether no number is farther from 0.
func within(most int64, numbers ...int64) bool {
	return !slices.ContainsFunc(numbers, func(n int64) bool { return n < -most || n > most })
}

// appendNumbers writes numbers separated by colons.
func appendNumbers(dst []byte, x ...int64) []byte {
	for i, n := range x {
		if i > 0 {
			dst = append(dst, ':')
		}
		dst = strconv.AppendInt(dst, n, 10)
	}
	return dst
}

// numbers reads len(dst) numbers, as written by appendNumbers.
func numbers(dst []int64, text string) bool {
	for i := range dst {
		word, rest, more := strings.Cut(text, ":")
		if more != (i < len(dst)-1) {
			return false
		}
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil || strconv.FormatInt(n, 10) != word {
			return false
		}
		dst[i], text = n, rest
	}
	return true
}

// AppendRunOff writes a run-off's ended buckets: the numbers of the last one and of the first entry bucket, then a word for each arm in the
// order of names. It is <N>:<Z>:<S> of each entry bucket, the oldest first, in which all with lag 32 or more are one. Then follow
// <K>:<X>:<Q>:<U>:<M> of Paid by lag.
func (e *Experiment) AppendRunOff(dst []byte, r *RunOff) []byte {
	dst = appendNumbers(append(e.Head(dst), ' '), r.last, r.from)
	for arm := range e.Arms {
		s := r.old[arm]
		dst = appendNumbers(append(dst, ' '), s.N, s.Z, s.S)
		for l := Lags - 2; l >= 0; l-- {
			s := r.entered[l][arm]
			dst = appendNumbers(append(dst, ':'), s.N, s.Z, s.S)
		}
		for _, s := range r.lags[arm] {
			dst = appendNumbers(append(dst, ':'), s.K, s.X, s.Q, s.U, s.M)
		}
	}
	return dst
}

// ParseRunOff replaces a run-off's ended buckets by the output of AppendRunOff. It fails with ErrText, ErrRun or ErrArms, and then changes
// nothing.
func (e *Experiment) ParseRunOff(text string, r *RunOff) error {
	words, err := e.Words(text)
	if err != nil {
		return err
	}
	if len(words) != 1+len(e.Arms) {
		return ErrArms
	}
	var bounds [2]int64
	const ofEntry, ofLag = 3, 5
	all := make([][(ofEntry + ofLag) * Lags]int64, len(e.Arms))
	if !numbers(bounds[:], words[0]) {
		return ErrText
	}
	for arm := range all {
		x := all[arm][:]
		if !numbers(x, words[1+arm]) {
			return ErrText
		}
		if !within(mostPayoffs, x...) {
			return ErrText
		}
		for l := range Lags {
			if !within(mostUnits, x[ofEntry*l], x[ofEntry*Lags+ofLag*l]) {
				return ErrText
			}
		}
	}
	r.last, r.from = bounds[0], bounds[1]
	for arm := range all {
		x := all[arm][:]
		for l := Lags - 1; l >= 0; l-- {
			to := &r.old[arm]
			if l < Lags-1 {
				to = &r.entered[l][arm]
			}
			*to, x = EntrySums{x[0], x[1], x[2]}, x[ofEntry:]
		}
		for l := range Lags {
			r.lags[arm][l], x = Paid{x[0], x[1], x[2], x[3], x[4]}, x[ofLag:]
		}
	}
	return nil
}

// AppendBucket writes an open bucket of a run-off, a word for each arm in the order of names. It is <N>:<Z>:<S> of its units and, by lag,
// <lag>:<K>:<X>:<Q>:<U>:<M> of Paid, separated by commas. It writes nothing if there is no such bucket.
func (e *Experiment) AppendBucket(dst []byte, r *RunOff, number int64) []byte {
	k, found := r.find(number)
	if !found {
		return dst
	}
	dst = e.Head(dst)
	for arm := range e.Arms {
		s := &r.open[k].by[arm]
		dst = appendNumbers(append(dst, ' '), s.entered.N, s.entered.Z, s.entered.S)
		for l, p := range s.lags {
			if p != (Paid{}) {
				dst = appendNumbers(append(dst, ','), int64(l), p.K, p.X, p.Q, p.U, p.M)
			}
		}
	}
	return dst
}

// ParseBucket replaces an open bucket of a run-off by the output of AppendBucket. It fails with ErrText, ErrRun or ErrArms, and then changes
// nothing.
func (e *Experiment) ParseBucket(text string, r *RunOff, number int64) error {
	words, err := e.Words(text)
	if err != nil {
		return err
	}
	if len(words) != len(e.Arms) {
		return ErrArms
	}
	by := make([]openSums, len(e.Arms))
	for arm, word := range words {
		parts := strings.Split(word, ",")
		var n [3]int64
		if !numbers(n[:], parts[0]) || !within(mostUnits, n[0]) || !within(mostPayoffs, n[1:]...) {
			return ErrText
		}
		by[arm].entered = EntrySums{N: n[0], Z: n[1], S: n[2]}
		last := int64(-1)
		for _, part := range parts[1:] {
			var x [6]int64
			if !numbers(x[:], part) || x[0] <= last || x[0] >= Lags || !within(mostPayoffs, x[1:]...) {
				return ErrText
			}
			last = x[0]
			if by[arm].lags[x[0]] = (Paid{x[1], x[2], x[3], x[4], x[5]}); by[arm].lags[x[0]] == (Paid{}) {
				return ErrText
			}
		}
	}
	copy(r.at(number).by, by)
	return nil
}
