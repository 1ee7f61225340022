// Package words reads and writes stored numbers with a separator between.
package words

import (
	"bytes"
	"strconv"
)

// Reader reads the words of a text in their order. After its first fault it returns zeros, and no word is left.
type Reader struct {
	rest   []byte
	sep    byte
	left   bool
	faulty bool
}

// Of returns a reader of a text; "" is one empty word.
func Of[T string | []byte](text T, sep byte) Reader {
	return Reader{rest: []byte(text), sep: sep, left: true}
}

// Left returns whether a word is left.
func (r *Reader) Left() bool { return r.left }

// Check makes the text faulty unless ok.
func (r *Reader) Check(ok bool) {
	if !ok {
		*r = Reader{faulty: true}
	}
}

// Faulty returns whether a fault has come.
func (r *Reader) Faulty() bool { return r.faulty }

// Done returns whether all words have been read without a fault.
func (r *Reader) Done() bool { return !r.faulty && !r.left }

// End returns nil if Done, else the given error.
func (r *Reader) End(fault error) error {
	if r.Done() {
		return nil
	}
	return fault
}

// Parse reads a whole text. It fails with the given error, and returns zero then.
func Parse[V any](text []byte, sep byte, read func(r *Reader) V, fault error) (v V, err error) {
	r := Of(text, sep)
	if v = read(&r); !r.Done() {
		var zero V
		return zero, fault
	}
	return v, nil
}

// Word returns the next word, which aliases the text.
func (r *Reader) Word() []byte {
	r.Check(r.left)
	word, rest, more := bytes.Cut(r.rest, []byte{r.sep})
	r.rest, r.left = rest, more
	return word
}

// Rest returns all words that are left, at least one, with their separators.
func (r *Reader) Rest() []byte {
	r.Check(r.left)
	rest := r.rest
	r.rest, r.left = nil, false
	return rest
}

// Int returns the next word as a number from low to high. Only its shortest form is read, so that a number has one spelling.
func (r *Reader) Int(low, high int64) int64 {
	word := r.Word()
	n, err := strconv.ParseInt(string(word), 10, 64)
	var shortest [20]byte
	r.Check(err == nil && n >= low && n <= high && bytes.Equal(strconv.AppendInt(shortest[:0], n, 10), word))
	if r.faulty {
		return 0
	}
	return n
}

// Ints fills dst with the next words, which are numbers from low to high.
func (r *Reader) Ints(dst []int64, low, high int64) {
	for i := range dst {
		dst[i] = r.Int(low, high)
	}
}

// Float returns the next word as a number from low to high, never NaN.
func (r *Reader) Float(low, high float64) float64 {
	x, err := strconv.ParseFloat(string(r.Word()), 64)
	r.Check(err == nil && x >= low && x <= high)
	if r.faulty {
		return 0
	}
	return x
}

// Floats returns all words that are left as numbers from low to high.
func (r *Reader) Floats(low, high float64) (all []float64) {
	for r.left {
		all = append(all, r.Float(low, high))
	}
	return all
}

// Append appends numbers with a separator between.
func Append(dst []byte, sep byte, numbers ...int64) []byte {
	for i, n := range numbers {
		if i > 0 {
			dst = append(dst, sep)
		}
		dst = strconv.AppendInt(dst, n, 10)
	}
	return dst
}

// AppendFloats appends numbers, each behind a separator.
func AppendFloats(dst []byte, sep byte, numbers ...float64) []byte {
	for _, x := range numbers {
		dst = strconv.AppendFloat(append(dst, sep), x, 'g', -1, 64)
	}
	return dst
}
