package event

import (
	"math"
	"strconv"
	"unicode/utf8"
)

// quickImpression reads an impression in one pass over its bytes, without the JSON library: an impression is most of
// what a worker reads, and a tree of its values costs three times as much as the values. It knows only what producers
// usually write: strings without escapes, no null among our fields, nothing nested but the candidates. For anything
// else, and for every fault, it returns false, whereupon the record is read in full, and what is wrong is said there.
// What it accepts, it reads as the full reading does; a fuzz target holds it to that.
func (d *Decoder) quickImpression(dst *Impression, key, value []byte) bool {
	if most := d.limits.MaxRecordBytes; most > 0 && len(value) > most {
		return false
	}
	d.letGo()
	d.memory = append(d.memory[:0], value...)
	q := quick{b: d.memory}
	const (
		hasID = 1 << iota
		hasLearner
		hasTime
		hasCandidates
	)
	seen := 0
	once := func(field int) bool {
		fresh := seen&field == 0
		seen |= field
		return fresh
	}
	for more := q.open('{'); more; more = q.next('}') {
		ok := false
		switch string(q.name()) {
		case "impression_id":
			dst.ID = q.text()
			ok = once(hasID) && len(dst.ID) > 0 && string(dst.ID) == string(key)
		case "learner":
			dst.Learner = q.text()
			ok = once(hasLearner)
		case "time":
			dst.Time, dst.HasTime = ParseTime(q.text())
			ok = once(hasTime) && dst.HasTime
		case "candidates":
			ok = once(hasCandidates) && d.quickCandidates(dst, &q)
		default:
			ok = q.skip()
		}
		if !ok {
			return false
		}
	}
	return q.end() && seen&hasID != 0 && len(dst.Candidates) > 0
}

func (d *Decoder) quickCandidates(dst *Impression, q *quick) bool {
	most := d.limits.MaxCandidates
	n := (len(q.b)-q.i)/len(`{"item":"a"},`) + 1 // there cannot be more
	if most > 0 {
		n = min(n, most)
	}
	d.distinct.start(n)
	itemAt := func(i int) []byte { return dst.Candidates[i].Item }
	for more := q.open('['); more; more = q.next(']') {
		c, hasUtility, ok := q.candidate()
		at := len(dst.Candidates)
		if !ok || at == n {
			return false
		}
		if at == 0 {
			dst.HasUtilities = hasUtility
		} else if hasUtility != dst.HasUtilities {
			return false
		}
		dst.Candidates = append(dst.Candidates, c)
		if !d.distinct.add(at, c.Item, itemAt) {
			return false
		}
	}
	return !q.bad
}

// quick reads the bytes of one record from the left. After the first thing that it does not know, bad is set, and
// what it returns means nothing.
type quick struct {
	b   []byte
	i   int
	bad bool
}

func (q *quick) candidate() (c Candidate, hasUtility, ok bool) {
	hasItem := false
	for more := q.open('{'); more; more = q.next('}') {
		switch string(q.name()) {
		case "item":
			if hasItem {
				return c, false, false
			}
			c.Item, hasItem = q.text(), true
		case "utility":
			if hasUtility {
				return c, false, false
			}
			c.Utility, hasUtility = q.float(), true
		default:
			if !q.skip() {
				return c, false, false
			}
		}
	}
	return c, hasUtility, !q.bad && len(c.Item) > 0
}

func (q *quick) space() {
	for q.i < len(q.b) && q.b[q.i] <= ' ' && isSpace(q.b[q.i]) {
		q.i++
	}
}

// is steps over c, and over white space before it, if it comes next.
func (q *quick) is(c byte) bool {
	if q.i < len(q.b) && q.b[q.i] == c {
		q.i++
		return true
	}
	q.space()
	if q.i < len(q.b) && q.b[q.i] == c {
		q.i++
		return true
	}
	return false
}

// open steps into an object or array, and tells whether it has a member; an empty one is not for us.
func (q *quick) open(bracket byte) bool {
	if !q.is(bracket) {
		q.bad = true
	}
	return !q.bad
}

// next goes on to the next member, and tells whether there is one before the closing bracket.
func (q *quick) next(bracket byte) bool {
	if q.bad || q.is(bracket) {
		return false
	}
	if !q.is(',') {
		q.bad = true
	}
	return !q.bad
}

// end tells whether everything was known, and nothing follows.
func (q *quick) end() bool {
	q.space()
	return !q.bad && q.i == len(q.b)
}

// name reads a member's name and the colon.
func (q *quick) name() []byte {
	name := q.string()
	if !q.is(':') {
		q.bad = true
		return nil
	}
	return name
}

// text reads a string of at most MaxIDBytes.
func (q *quick) text() []byte {
	s := q.string()
	if len(s) > MaxIDBytes {
		q.bad = true
	}
	return s
}

// string reads a string without escapes.
func (q *quick) string() []byte {
	if !q.is('"') {
		q.bad = true
		return nil
	}
	b, from := q.b, q.i
	i, wide := from, false
	for i < len(b) {
		c := b[i]
		if !special[c] {
			i++
			continue
		}
		if c == '"' {
			q.i = i + 1
			if wide && !utf8.Valid(b[from:i]) {
				break
			}
			return b[from:i:i]
		}
		if c < utf8.RuneSelf {
			break
		}
		wide = true
		i++
	}
	q.bad = true
	return nil
}

// skip steps over the value of a field that is not ours, if it is a scalar.
func (q *quick) skip() bool {
	q.space()
	if q.bad || q.i == len(q.b) {
		return false
	}
	next, flaw := scanScalar(q.b, q.i)
	q.i = next
	return flaw == sound
}

// exactDigits is how many decimal digits surely fit into a float64's 53 bits, and pow10 are the powers of ten that
// are floats themselves: the quotient of two such numbers is rounded once, hence right (W. D. Clinger, "How to read
// floating point numbers accurately", PLDI 1990).
const exactDigits = 15

var pow10 = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// float reads a number, to the nearest float64.
func (q *quick) float() float64 {
	q.space()
	b, from := q.b, q.i
	i := from
	negative := i < len(b) && b[i] == '-'
	if negative {
		i++
	}
	first := i
	var digits uint64
	for i < len(b) && isDigit(b[i]) && i-first <= exactDigits {
		digits = digits*10 + uint64(b[i]-'0')
		i++
	}
	count, point := i-first, i
	if count == 0 || count > 1 && b[first] == '0' {
		q.bad = true
		return 0
	}
	if i < len(b) && b[i] == '.' {
		i++
		for i < len(b) && isDigit(b[i]) && i-first <= exactDigits+1 {
			digits = digits*10 + uint64(b[i]-'0')
			i++
		}
		if count = i - first - 1; i == point+1 {
			q.bad = true
			return 0
		}
	}
	if count > exactDigits || i == len(b) || isDigit(b[i]) || b[i] == 'e' || b[i] == 'E' {
		return q.longFloat(from)
	}
	q.i = i
	x := float64(digits)
	if i > point {
		x /= pow10[i-point-1]
	}
	if negative {
		x = -x
	}
	return x
}

// longFloat reads a number of many digits or with an exponent.
func (q *quick) longFloat(from int) float64 {
	end, flaw := scanNumber(q.b, from)
	x, err := strconv.ParseFloat(string(q.b[from:end]), 64)
	if flaw != sound || err != nil || math.IsInf(x, 0) {
		q.bad = true
		return 0
	}
	q.i = end
	return x
}
