package event

import "bytes"

// Misspelling is an unknown field that resembles an absent known one: "Learner" without "learner". It is ignored like every unknown field,
// but probably a mistake.
type Misspelling struct {
	Records int64  // records with one
	Field   string // of the first of these
	Meant   string // the known field
}

// Misspelt returns the misspelt fields in a topic's input records since the decoder was made.
func (d *Decoder) Misspelt(t Topic) Misspelling { return d.misspelt[t] }

// near reports whether key differs from name only by case, underscores and dashes, or by one letter: replaced, added, omitted, or swapped
// with its neighbour.
func near(key []byte, name string) bool {
	if len(key) < len(name)-2 || len(key) > len(name)+2 {
		return false
	}
	if sameWord(key, name) {
		return true
	}
	k := 0
	for k < len(key) && k < len(name) && key[k] == name[k] {
		k++
	}
	a, b := key[k:], name[k:]
	switch len(a) - len(b) {
	case 0:
		swapped := len(a) > 1 && a[0] == b[1] && a[1] == b[0] && string(a[2:]) == b[2:]
		return swapped || len(a) > 0 && string(a[1:]) == b[1:]
	case 1:
		return string(a[1:]) == b
	case -1:
		return string(a) == b[1:]
	}
	return false
}

// sameWord compares without case and word separators.
func sameWord(key []byte, name string) bool {
	k := 0
	for _, c := range key {
		if c == '_' || c == '-' {
			continue
		}
		for k < len(name) && name[k] == '_' {
			k++
		}
		if k == len(name) || c|0x20 != name[k] { // known names are in small letters
			return false
		}
		k++
	}
	return k == len(name)
}

// noted counts a slip, at most once per record.
func (d *Decoder) noted(s slip) {
	if d.slipped {
		return
	}
	d.slipped = true
	m := &d.misspelt[d.topic]
	if m.Records++; m.Records == 1 {
		m.Field, m.Meant = string(bytes.ToValidUTF8(s.key, []byte("?"))), s.of[s.name]
	}
}
