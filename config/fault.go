package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is a fault of a configuration file, or a warning.
type Fault struct {
	File    string `json:"-"`
	Line    int    `json:"line"`   // from 1; 0: the whole file
	Column  int    `json:"column"` // from 1; 0: unknown
	Key     string `json:"key"`    // full path, such as learners.feed.policy; empty: no key
	Message string `json:"message"`
	Warning bool   `json:"-"` // allowed, but doubtful
}

// String returns the format of compilers: "file:line: key: message".
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(f.File)
	if f.Line > 0 {
		fmt.Fprintf(&b, ":%d", f.Line)
	}
	b.WriteString(": ")
	if f.Warning {
		b.WriteString("warning: ")
	}
	if f.Key != "" {
		b.WriteString(f.Key)
		b.WriteString(": ")
	}
	b.WriteString(f.Message)
	return b.String()
}

// Faults are all faults of a file, in the file's order; not empty as an error.
type Faults []Fault

func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].String()
	}
	return strings.Join(lines, "\n")
}

func inOrder(faults []Fault) {
	slices.SortStableFunc(faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
