package main

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"unicode/utf8"
)

// table prints rows in aligned columns: numbers to the right, the first column and other texts to the left. The first row is the head.
type table struct{ rows [][]string }

// row adds a row. Tabs separate its cells.
func (t *table) row(format string, args ...any) {
	t.rows = append(t.rows, strings.Split(fmt.Sprintf(format, args...), "\t"))
}

// isNumber matches numbers, intervals, and the signs of missing ones.
var isNumber = regexp.MustCompile(`^([-+−±]?[0-9.∞][^ ]*|\[.*\]|[-–]|)$`)

// write writes the rows behind an indent, without spaces at the ends of lines.
func (t *table) write(w io.Writer, indent string) {
	var widths []int
	var texts []bool
	for k, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths, texts = append(widths, 0), append(texts, i == 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
			texts[i] = texts[i] || k > 0 && !isNumber.MatchString(cell)
		}
	}
	for _, row := range t.rows {
		line := ""
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if texts[i] {
				line += cell + pad + "  "
			} else {
				line += pad + cell + "  "
			}
		}
		fmt.Fprintln(w, strings.TrimRight(indent+line, " "))
	}
}

// figure formats a number; "-" without one.
func figure(format string, x *float64) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf(format, *x)
}
