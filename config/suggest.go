package config

import (
	"fmt"
	"strings"
)

// reportUnknown reports unknown keys, each with the one that was probably meant, and missing keys, unless they were meant.
func (d *decoder) reportUnknown(c *Config) {
	meant := map[string]bool{}
	homes := map[string]string{}
	if len(d.unknown) > 0 {
		homes = sectionsByKey(c)
	}
	for _, u := range d.unknown {
		path := u.key
		if u.section != "" {
			path = u.section + "." + u.key
		}
		hint := ""
		if near := nearest(u.key, u.known); near != "" {
			hint = fmt.Sprintf("; did you mean %s?", near)
			meant[strings.TrimSuffix(path, u.key)+near] = true
		} else if home := homes[normaliseKey(u.key)]; home != "" {
			hint = fmt.Sprintf("; did you mean %s?", home)
			meant[home] = true
		}
		// A key may be any text: quote it unless it is a plain word.
		if quoted := quote(u.key); len(quoted) != len(u.key)+2 {
			d.fault(u.section, u.at, "%s is not a key%s", quoted, hint)
			continue
		}
		d.fault(path, u.at, "unknown key%s", hint)
	}
	for _, f := range d.missing {
		if !meant[f.Key] && !d.bad[f.Key] && !d.bad[""] {
			d.faults = append(d.faults, f)
		}
	}
}

// sectionsByKey returns, for each normalised key, the first section that has it.
func sectionsByKey(c *Config) map[string]string {
	learner := "<name>"
	if len(c.Learners) > 0 {
		learner = c.Learners[0].Name
	}
	all := append(paths("", settings), "learners")
	all = append(all, paths("learners."+learner+".", learnerSettings)...)
	all = append(append(all, "experiments"), paths("experiments.<name>.", experimentSettings)...)
	homes := map[string]string{}
	for _, path := range all {
		word := normaliseKey(path[strings.LastIndexByte(path, '.')+1:])
		if _, has := homes[word]; !has {
			homes[word] = path
		}
	}
	return homes
}

var separators = strings.NewReplacer("_", "", "-", "", ".", "", " ", "")

// normaliseKey returns a key in lower case and without separators.
func normaliseKey(s string) string { return separators.Replace(strings.ToLower(s)) }

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
