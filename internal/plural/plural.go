// Package plural writes counts with their nouns, for messages of commands and tools.
package plural

import "strconv"

// N returns n and its noun, whose plural ends in "s": "1 row", "2 rows".
func N[I ~int | ~int32 | ~int64](n I, noun string) string { return Noun(n, noun, noun+"s") }

// Noun is N for a noun with an irregular plural.
func Noun[I ~int | ~int32 | ~int64](n I, one, many string) string {
	if n != 1 {
		one = many
	}
	return strconv.FormatInt(int64(n), 10) + " " + one
}
