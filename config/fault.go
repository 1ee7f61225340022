package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with a configuration file, or one warning.
type Fault struct {
	File    string
	Line    int    // from 1; 0 where the fault is the whole file's
	Column  int    // from 1; 0 where it is not known
	Key     string // full path, such as learners.feed.policy; empty where no key is at fault
	Message string
	Warning bool // allowed, but doubtful
}

// String is the fault as compilers write theirs: "file:line: key: message".
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

// Faults are everything that is wrong with a file, in the file's order. They are never empty as an error.
type Faults []Fault

// Error has one line for each fault.
func (f Faults) Error() string {
	lines := make([]string, len(f))
	for i := range f {
		lines[i] = f[i].String()
	}
	return strings.Join(lines, "\n")
}

// inOrder sorts faults as the file reads.
func inOrder(faults []Fault) {
	slices.SortStableFunc(faults, func(a, b Fault) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}
