package checker

import (
	"fmt"
	"io"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ranker-worker/ranker-worker/internal/plural"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

type Violation struct {
	Partition int32  `json:"partition"`
	Law       string `json:"law"`
	ID        string `json:"id,omitempty"` // of the impression, item, instance, record or field
	Expected  string `json:"expected"`
	Found     string `json:"found"`
}

// String returns one line for people.
func (v Violation) String() string {
	return fmt.Sprintf("partition %d: %s: %s: expected %s, found %s", v.Partition, v.Law, v.ID, v.Expected, v.Found)
}

// LawCount counts the comparisons by a law.
type LawCount struct {
	Law        string `json:"law"`
	Checked    int64  `json:"checked"`
	Violations int64  `json:"violations"`
	// Open counts comparisons whose expected value depends on the interleaving: the law only bounds it, or says nothing.
	Open int64 `json:"open,omitempty"`
}

type PartitionReport struct {
	Partition  int32               `json:"partition"`
	Seq        int64               `json:"seq"`     // of the checkpoint read
	Read       [event.Topics]int64 `json:"read"`    // records read of impressions, selections, payoffs and rankings
	Letters    int64               `json:"letters"` // dead letters read
	Pending    int64               `json:"pending"`
	Held       int64               `json:"held"`      // the most ids held in memory at once
	Forgotten  int64               `json:"forgotten"` // ids that were over and dropped
	Laws       []LawCount          `json:"laws"`
	Violations []Violation         `json:"violations"` // bounded, see Options.Kept; all are counted in Laws
	Unchecked  []string            `json:"unchecked"`  // parts that could not be checked, with reasons
	Seconds    float64             `json:"seconds"`
}

// Report is the result of a Check.
type Report struct {
	Group      string            `json:"group"`
	Records    int64             `json:"records"` // read from all topics, dead letters included
	Violated   int64             `json:"violated"`
	Laws       []LawCount        `json:"laws"`
	Violations []Violation       `json:"violations"`
	Unchecked  []string          `json:"unchecked"`
	Partitions []PartitionReport `json:"partitions"`
	Seconds    float64           `json:"seconds"`
}

func (r *Report) OK() bool { return r.Violated == 0 }

// Print writes the report for people: a line for each violation, then a summary.
func (r *Report) Print(w io.Writer) error {
	var b strings.Builder
	for _, v := range r.Violations {
		fmt.Fprintln(&b, v)
	}
	if kept := int64(len(r.Violations)); kept < r.Violated {
		fmt.Fprintf(&b, "… and %d more\n", r.Violated-kept)
	}
	for _, u := range r.Unchecked {
		fmt.Fprintf(&b, "not checked: %s\n", u)
	}
	fmt.Fprintf(&b, "%-24s %12s %12s %12s\n", "law", "checked", "open", "violations")
	var checked int64
	for _, l := range r.Laws {
		fmt.Fprintf(&b, "%-24s %12d %12d %12d\n", l.Law, l.Checked, l.Open, l.Violations)
		checked += l.Checked
	}
	fmt.Fprintf(&b, "group %s: %s, %s read, %s by %d laws, %s, %.1f s (%.0f records/s)\n",
		r.Group, plural.N(len(r.Partitions), "partition"), plural.N(r.Records, "record"), plural.N(checked, "comparison"), len(r.Laws),
		plural.N(r.Violated, "violation"), r.Seconds,
		float64(r.Records)/max(r.Seconds, 1e-9))
	_, err := io.WriteString(w, b.String())
	return err
}

// findings collects one partition's results.
type findings struct {
	partition int32
	kept      int
	counts    []LawCount // by law
	list      []Violation
	unchecked []string
}

func newFindings(p int32, kept int) *findings {
	f := &findings{partition: p, kept: kept, counts: make([]LawCount, len(lawNames))}
	for l, name := range lawNames {
		f.counts[l].Law = name
	}
	return f
}

// must counts a comparison, reports a breach unless it holds, and returns holds. Texts are formatted only for a breach.
func (f *findings) must(l law, holds bool, id, expected, found any) bool {
	if !f.ok(l, holds) {
		f.breach(l, id, expected, found)
	}
	return holds
}

// broken counts and reports a breach.
func (f *findings) broken(l law, id, expected, found any) { f.must(l, false, id, expected, found) }

// ok counts a comparison and returns holds; the caller reports a breach. It spares the formatting, where there are many.
func (f *findings) ok(l law, holds bool) bool {
	f.counts[l].Checked++
	return holds
}

func (f *findings) open(l law) { f.counts[l].Open++ }

// breach records a violation.
func (f *findings) breach(l law, id, expected, found any) {
	c := &f.counts[l]
	c.Violations++
	if c.Violations <= int64(f.kept) {
		f.list = append(f.list, Violation{f.partition, lawNames[l], fmt.Sprint(id), fmt.Sprint(expected), fmt.Sprint(found)})
	}
}

// equal compares two values by a law.
func equal[T comparable](f *findings, l law, id any, expected, found T) bool {
	if !f.ok(l, expected == found) {
		f.breach(l, id, expected, found)
		return false
	}
	return true
}

// text is formatted when it is printed.
type text struct {
	format string
	args   []any
}

func say(format string, args ...any) text { return text{format, args} }

func (t text) String() string { return fmt.Sprintf(t.format, t.args...) }

// skip records a part that is not checked, with the reason.
func (f *findings) skip(format string, args ...any) {
	f.unchecked = append(f.unchecked, fmt.Sprintf("partition %d: ", f.partition)+fmt.Sprintf(format, args...))
}

func (f *findings) report(fold *fold, took time.Duration) PartitionReport {
	return PartitionReport{Partition: f.partition, Seq: fold.state.seq, Read: fold.read, Letters: fold.lettersRead,
		Pending: fold.pending, Held: fold.held, Forgotten: fold.forgotten, Laws: slices.Clone(f.counts), Violations: f.list, Unchecked: f.unchecked, Seconds: took.Seconds()}
}

func summarise(group string, all []PartitionReport, took time.Duration) Report {
	r := Report{Group: group, Partitions: all, Seconds: took.Seconds(), Violations: []Violation{}, Unchecked: []string{}}
	r.Laws = make([]LawCount, len(lawNames))
	for _, p := range all {
		for _, n := range p.Read {
			r.Records += n
		}
		r.Records += p.Letters
		for l, c := range p.Laws {
			r.Laws[l].Law = c.Law
			r.Laws[l].Checked += c.Checked
			r.Laws[l].Open += c.Open
			r.Laws[l].Violations += c.Violations
			r.Violated += c.Violations
		}
		r.Violations = append(r.Violations, p.Violations...)
		r.Unchecked = append(r.Unchecked, p.Unchecked...)
	}
	return r
}

// put sets a key of a map, and makes the map if need be.
func put[K comparable, V any](into *map[K]V, key K, value V) {
	if *into == nil {
		*into = map[K]V{}
	}
	(*into)[key] = value
}

// either returns the keys of two maps, each once.
func either[K comparable, A, B any](a map[K]A, b map[K]B) iter.Seq[K] {
	return func(yield func(K) bool) {
		for k := range a {
			if !yield(k) {
				return
			}
		}
		for k := range b {
			if _, both := a[k]; !both && !yield(k) {
				return
			}
		}
	}
}

// near reports whether two sums of n terms, added in different orders, agree.
func near(a, b float64, n int64) bool {
	scale := math.Max(math.Max(math.Abs(a), math.Abs(b)), 1)
	return math.Abs(a-b) <= 1e-12*scale*float64(16+n)
}

// bound is the range of a count.
type bound struct{ lo, hi int64 }

func (b bound) String() string {
	if b.lo == b.hi {
		return strconv.FormatInt(b.lo, 10)
	}
	return fmt.Sprintf("%d to %d", b.lo, b.hi)
}

// within compares a count with its range. A range of several counts is open.
func (f *findings) within(l law, id any, b bound, found int64) {
	if b.lo < b.hi {
		f.open(l)
	}
	f.must(l, found >= b.lo && found <= b.hi, id, b, found)
}
