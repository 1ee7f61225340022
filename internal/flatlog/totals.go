package flatlog

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// Total is the sum of an item's past selections, in raw units.
type Total struct {
	Item       string
	Selections int64
	Payoffs    float64  // their sum
	Squares    *float64 // the sum of their squares; nil if it is not known
}

var columns = []string{"item", "selections", "payoffs", "squares"}

// ReadTotals calls do for each line of a table in CSV, whose first line names its columns: item, selections, payoffs and perhaps squares. It
// goes on behind faulty lines, and calls faulty with a Fault for each, also for an error of do. Other errors it returns.
func ReadTotals(file string, in io.Reader, do func(*Total) error, faulty func(error)) error {
	r := csv.NewReader(in)
	r.TrimLeadingSpace, r.ReuseRecord = true, true
	names, err := r.Read()
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	var at [4]int
	for k, name := range columns {
		at[k] = slices.Index(names, name)
	}
	if slices.Contains(at[:3], -1) || len(names) > len(columns) {
		return fault(file, 1, "it is neither a flat log nor a table of totals, which begins with the line item,selections,payoffs")
	}
	for {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		var syntax *csv.ParseError
		if errors.As(err, &syntax) {
			faulty(fault(file, syntax.StartLine, "%v", syntax.Err))
			continue
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		t, err := parseTotal(fields, at)
		if err == nil {
			err = do(t)
		}
		if err != nil {
			line, _ := r.FieldPos(0)
			faulty(fault(file, line, "%v", err))
		}
	}
}

func parseTotal(fields []string, at [4]int) (t *Total, err error) {
	t = &Total{Item: fields[at[0]]}
	if t.Selections, err = strconv.ParseInt(fields[at[1]], 10, 64); err != nil || t.Selections < 0 {
		return nil, fmt.Errorf("selections %q is no whole number from 0 on", fields[at[1]])
	}
	if t.Payoffs, err = strconv.ParseFloat(fields[at[2]], 64); err != nil {
		return nil, fmt.Errorf("payoffs %q is no number", fields[at[2]])
	}
	if at[3] >= 0 {
		squares, err := strconv.ParseFloat(fields[at[3]], 64)
		if err != nil {
			return nil, fmt.Errorf("squares %q is no number", fields[at[3]])
		}
		t.Squares = &squares
	}
	return t, nil
}
