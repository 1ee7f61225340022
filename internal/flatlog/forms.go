package flatlog

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// form parses a line into a row. A log's first line shows its form: JSON with a header, CSV, or decisions of Vowpal Wabbit (dsjson).
type form func(text []byte, row *Row) error

// IsLog reports whether a file that begins so is a flat log in one of its forms, and no table of totals.
func IsLog(beginning []byte) bool {
	line, _, _ := bytes.Cut(bytes.TrimSpace(beginning), []byte{'\n'})
	return bytes.HasPrefix(line, []byte{'{'}) || slices.Contains(strings.Split(strings.TrimSpace(string(line)), ","), "action")
}

func parseJSON(text []byte, row *Row) error { return json.Unmarshal(text, row) }

// table is a flat log in CSV, by its names of columns: those of Row, where candidates, propensities and `target:NAME` are lists with |
// between. A row is one line.
type table []string

const (
	listMark   = "|"
	targetMark = "target:"
)

func parseColumns(text []byte) (table, error) {
	names, err := csv.NewReader(bytes.NewReader(text)).Read()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		switch name {
		case "time", "action", "slot", "propensity", "payoff", "candidates", "propensities":
		default:
			if !strings.HasPrefix(name, targetMark) {
				return nil, fmt.Errorf("it has no column %q: they are time, action, slot, propensity, payoff, candidates, propensities and target:NAME", name)
			}
		}
	}
	for _, needed := range []string{"action", "candidates", "payoff"} {
		if !slices.Contains(names, needed) {
			return nil, fmt.Errorf("the column %s is missing", needed)
		}
	}
	return names, nil
}

// targets returns the names of the targets, in the order of the columns.
func (t table) targets() (names []string) {
	for _, column := range t {
		if name, ok := strings.CutPrefix(column, targetMark); ok {
			names = append(names, name)
		}
	}
	return names
}

func (t table) row(text []byte, row *Row) error {
	r := csv.NewReader(bytes.NewReader(text))
	r.FieldsPerRecord = len(t)
	fields, err := r.Read()
	if err != nil {
		return err
	}
	for k, text := range fields {
		if err := t.set(row, t[k], text); err != nil {
			return fmt.Errorf("%s: %w", t[k], err)
		}
	}
	return nil
}

func (t table) set(row *Row, column, text string) (err error) {
	switch column {
	case "time":
		row.Time = text
	case "action":
		row.Action = text
	case "slot":
		row.Slot = text
	case "candidates":
		row.Candidates = strings.Split(text, listMark)
	case "propensity":
		row.Propensity, err = parseNumber(text)
	case "payoff":
		row.Payoff, err = parseNumber(text)
	case "propensities":
		row.Propensities, err = parseNumbers(text)
	default:
		if row.Targets == nil {
			row.Targets = map[string][]float64{}
		}
		row.Targets[strings.TrimPrefix(column, targetMark)], err = parseNumbers(text)
	}
	return err
}

// parseNumber returns nil for an empty text.
func parseNumber(text string) (*float64, error) {
	if text == "" {
		return nil, nil
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, fmt.Errorf("%q is no number", text)
	}
	return &x, nil
}

func parseNumbers(text string) (all []float64, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, listMark) {
		x, err := parseNumber(part)
		if err != nil || x == nil {
			return nil, fmt.Errorf("%q is no list of numbers with %s between", text, listMark)
		}
		all = append(all, *x)
	}
	return all, nil
}

// decision is a line of a dsjson log with the action that was shown and its cost. Actions are numbered from 1, those shown first come first.
type decision struct {
	Cost    *float64  `json:"_label_cost"`
	Time    string    `json:"Timestamp"`
	Actions []int     `json:"a"`
	Chances []float64 `json:"p"`
	Context struct {
		Multi []struct {
			Tag string `json:"_tag"`
		} `json:"_multi"`
	} `json:"c"`
	Dropped float64 `json:"pdrop"`
}

// parseDecision takes the negative cost for the payoff. A candidate's name is its _tag, or else its number.
func parseDecision(text []byte, row *Row) error {
	var d decision
	if err := json.Unmarshal(text, &d); err != nil {
		return err
	}
	switch {
	case d.Cost == nil || len(d.Actions) == 0:
		return fmt.Errorf("it is no decision of a dsjson log: _label_cost or a is missing")
	case len(d.Actions) != len(d.Chances):
		return fmt.Errorf("%d actions have %d probabilities", len(d.Actions), len(d.Chances))
	case d.Dropped != 0:
		return fmt.Errorf("pdrop is %v: decisions were dropped from the log, and the others cannot be weighed", d.Dropped)
	}
	payoff := -*d.Cost + 0 // no negative zero
	row.Time, row.Payoff, row.Propensities = d.Time, &payoff, d.Chances
	for _, n := range d.Actions {
		name := strconv.Itoa(n)
		if n >= 1 && n <= len(d.Context.Multi) && d.Context.Multi[n-1].Tag != "" {
			name = d.Context.Multi[n-1].Tag
		}
		row.Candidates = append(row.Candidates, name)
	}
	row.Action = row.Candidates[0]
	return nil
}
