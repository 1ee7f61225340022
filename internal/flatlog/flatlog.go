// Package flatlog reads past selections and their payoffs from other systems: a flat log has a line for each selection, a table of totals
// a line for each item. Commands evaluate and state warm read it.
package flatlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/joinedlog"
)

// LeastPropensity is the propensity below which a selection counts as impossible.
const LeastPropensity = 1e-9

const tolerance = 1e-6

// Header is the first line of a flat log in JSON. In other forms there is none, and it is empty.
type Header struct {
	Flat       int                        `json:"flat"`
	Candidates []string                   `json:"candidates"`
	Targets    map[string]json.RawMessage `json:"targets"`
	InRows     []string                   `json:"-"` // targets of which each row has a decision, in CSV
}

// Row is a selection of a flat log, with the names of its form in JSON.
type Row struct {
	Time         string               `json:"time"`
	Action       string               `json:"action"`
	Slot         string               `json:"slot"`
	Propensity   *float64             `json:"propensity"`
	Payoff       *float64             `json:"payoff"` // in raw units
	Candidates   []string             `json:"candidates"`
	Propensities []float64            `json:"propensities"`
	Targets      map[string][]float64 `json:"targets"`

	Items []int32   `json:"-"` // numbers of the candidates, from 0 in the order of appearance
	At    int       `json:"-"` // index of the selected one
	P     float64   `json:"-"` // its propensity, in [LeastPropensity, 1]
	Began time.Time `json:"-"` // zero without a time
}

// Reader reads a flat log.
type Reader struct {
	file    string
	line    int
	lines   *joinedlog.LineReader
	parse   form
	again   []byte // the first line, if it is a row; nil once it is read
	units   config.Range
	index   map[string]int // of the header's candidates
	numbers map[string]int32
	met     []int   // by number: the last line with the name among its candidates
	items   []int32 // of the header's candidates
	scratch []int32
	last    time.Time
}

// Fault is the error of a faulty line. Reading may go on behind it.
type Fault struct{ text string }

func (f *Fault) Error() string { return f.text }

// Open reads the header of a flat log. Payoffs must lie in units. It fails with a Fault if the log has none.
func Open(file string, in io.Reader, units config.Range) (*Reader, *Header, error) {
	r := &Reader{file: file, lines: joinedlog.NewLineReader(in, 1<<20), units: units, numbers: map[string]int32{}, index: map[string]int{}}
	text, err := r.next()
	if errors.Is(err, io.EOF) {
		return nil, nil, r.Fault(`it is empty: a flat log begins with {"flat":1,"candidates":[…]}`)
	}
	if err != nil {
		return nil, nil, err
	}
	h, err := r.begin(text)
	if err != nil {
		return nil, nil, err
	}
	for k, name := range h.Candidates {
		if _, again := r.index[name]; again {
			return nil, nil, r.Fault("candidate %q is there twice", name)
		}
		r.index[name] = k
		r.items = append(r.items, r.number(name))
	}
	return r, h, nil
}

// begin finds the log's form by its first line, and reads the header if it has one.
func (r *Reader) begin(text []byte) (*Header, error) {
	h := &Header{}
	switch {
	case text[0] != '{':
		columns, err := parseColumns(text)
		if err != nil {
			return nil, r.Fault("%v", err)
		}
		r.parse, h.InRows = columns.row, columns.targets()
	case bytes.Contains(text, []byte(`"_label_cost"`)):
		r.parse, r.again = parseDecision, bytes.Clone(text)
	case json.Unmarshal(text, h) != nil || h.Flat != 1:
		return nil, r.Fault(`a flat log begins with {"flat":1,"candidates":[…]}`)
	default:
		r.parse = parseJSON
	}
	return h, nil
}

// Line returns the number of the line read last, from 1 on.
func (r *Reader) Line() int { return r.line }

// Fault returns a fault of the line read last.
func (r *Reader) Fault(format string, args ...any) error {
	return fault(r.file, r.line, format, args...)
}

func fault(file string, line int, format string, args ...any) error {
	return &Fault{fmt.Sprintf("%s:%d: %s", file, line, fmt.Sprintf(format, args...))}
}

// next returns the next line that is not blank; io.EOF after the last.
func (r *Reader) next() ([]byte, error) {
	if text := r.again; text != nil {
		r.again = nil
		return text, nil
	}
	for {
		r.line++
		line, err := r.lines.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, err
		case errors.Is(err, joinedlog.ErrLongLine):
			return nil, fmt.Errorf("%s:%d: %w", r.file, r.line, err)
		case err != nil:
			return nil, fmt.Errorf("reading %s: %w", r.file, err)
		}
		if text := bytes.TrimSpace(line); len(text) > 0 {
			return text, nil
		}
	}
}

// Next returns the next row, valid until the next call, and io.EOF after the last. It fails with a Fault on a faulty line.
func (r *Reader) Next() (*Row, error) {
	text, err := r.next()
	if err != nil {
		return nil, err
	}
	row := &Row{}
	if err := r.parse(text, row); err != nil {
		return nil, r.Fault("%v", err)
	}
	if err := r.candidates(row); err != nil {
		return nil, err
	}
	return row, r.check(row)
}

func (r *Reader) number(name string) int32 {
	i, ok := r.numbers[name]
	if !ok {
		i = int32(len(r.numbers))
		r.numbers[name], r.met = i, append(r.met, 0)
	}
	return i
}

func (r *Reader) candidates(row *Row) error {
	known := false
	if row.Items = r.items; row.Candidates == nil {
		row.At, known = r.index[row.Action]
	} else {
		row.Items = r.scratch[:0]
		for k, name := range row.Candidates {
			i := r.number(name)
			if row.Items = append(row.Items, i); name == row.Action {
				row.At, known = k, true
			}
			if r.met[i] == r.line {
				return r.Fault("candidate %q is there twice", name)
			}
			r.met[i] = r.line
		}
		r.scratch = row.Items
	}
	if !known {
		return r.Fault("action %q is not among the candidates", row.Action)
	}
	return nil
}

func (r *Reader) check(row *Row) error {
	n := len(row.Items)
	switch {
	case row.Propensities != nil && len(row.Propensities) != n:
		return r.Fault("%d propensities for %d candidates", len(row.Propensities), n)
	case row.Propensities != nil:
		if row.P = row.Propensities[row.At]; row.Propensity != nil && math.Abs(*row.Propensity-row.P) > tolerance {
			return r.Fault("propensity is %v, and %v among the propensities", *row.Propensity, row.P)
		}
		if err := r.Distribution("propensities", row.Propensities, n); err != nil {
			return err
		}
	case row.Propensity == nil:
		return r.Fault("propensity is missing")
	default:
		row.P = *row.Propensity
	}
	if !(row.P >= LeastPropensity && row.P <= 1) {
		return r.Fault("propensity is %v, must be in [%v, 1]", row.P, LeastPropensity)
	}
	switch {
	case row.Payoff == nil:
		return r.Fault("payoff is missing")
	case !(*row.Payoff >= r.units.Min && *row.Payoff <= r.units.Max):
		return r.Fault("payoff %v lies outside the payoff range [%v, %v]", *row.Payoff, r.units.Min, r.units.Max)
	}
	if row.Time == "" {
		return nil
	}
	began, err := time.Parse(time.RFC3339, row.Time)
	if err != nil {
		return r.Fault("time %q is not of the form 2026-11-21T10:00:00Z", row.Time)
	}
	if began.Before(r.last) {
		return r.Fault("its time is before that of a line above; sort the log by time")
	}
	row.Began, r.last = began, began
	return nil
}

// Distribution returns a fault unless all are n probabilities with sum 1.
func (r *Reader) Distribution(of string, all []float64, n int) error {
	if len(all) != n {
		return r.Fault("%s has %d probabilities for %d candidates", of, len(all), n)
	}
	sum := 0.0
	for _, p := range all {
		if !(p >= 0) { // or not a number, which CSV can say
			return r.Fault("%s has a probability of %v", of, p)
		}
		sum += p
	}
	if !(math.Abs(sum-1) <= tolerance) {
		return r.Fault("%s adds up to %v", of, sum)
	}
	return nil
}
