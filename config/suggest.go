package config

import (
	"strings"
)

var separators = strings.NewReplacer("_", "", "-", "", ".", "", " ", "")

// normaliseKey returns a key in lower case and without separators.
func normaliseKey(s string) string { return separators.Replace(strings.ToLower(s)) }

// DidYouMean ends a message about an unknown word with the candidate that was probably meant; "" without one.
func DidYouMean(word string, candidates []string) string {
	if near := nearest(word, candidates); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// nearest returns the candidate that word probably misspells, or "".
func nearest(word string, candidates []string) string {
	w := normaliseKey(word)
	if len(w) > 64 {
		return ""
	}
	best, bestDistance := "", 0
	for _, c := range candidates {
		p := normaliseKey(c)
		dist := distance(w, p)
		switch {
		case len(w) >= 4 && strings.Contains(p, w) || len(p) >= 4 && strings.Contains(w, p):
			dist = min(dist, 2)
		case dist > max(1, min(len(w), len(p))/3):
			continue
		}
		if best == "" || dist < bestDistance {
			best, bestDistance = c, dist
		}
	}
	return best
}

// distance is the number of bytes to insert, delete, replace or swap with their neighbour to get from a to b.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
