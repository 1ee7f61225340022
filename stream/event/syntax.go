package event

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// MaxDepth bounds the nesting of a record's JSON. Our own records need 3; the rest is for ignored fields.
const MaxDepth = 64

type flaw uint8

const (
	sound flaw = iota
	flawEnd
	flawTrailing
	flawUnexpected
	flawDepth
	flawUTF8
	flawControl
	flawEscape
	flawSurrogate
	flawNumber
)

func (f flaw) String() string {
	return [...]string{
		"nothing", "it ends too early", "more follows the document", "unexpected character", "nested too deep",
		"invalid UTF-8", "control character in a string", "unknown escape sequence", "surrogate without its other half",
		"not a JSON number",
	}[f]
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// special marks the bytes of a string that are not plain printable ASCII.
var special = func() (t [256]bool) {
	for c := range t {
		t[c] = c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf
	}
	return t
}()

// The lowest and the highest bit of each byte of a word.
const (
	lowBits  = 0x0101010101010101
	highBits = 0x8080808080808080
)

// plain returns the index of the first special byte of b from b[i] on, or len(b). It reads eight bytes at a time.
func plain(b []byte, i int) int {
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, backslash := w^'"'*lowBits, w^'\\'*lowBits
		// A byte minus a larger one borrows, which sets the byte's clear highest bit. A borrow may also set bits of higher bytes, so only
		// the lowest set bit is reliable, which is the one needed.
		found := w | (w-' '*lowBits)&^w | (quote-lowBits)&^quote | (backslash-lowBits)&^backslash
		if found &= highBits; found != 0 {
			return i + bits.TrailingZeros64(found)/8
		}
	}
	for i < len(b) && !special[b[i]] {
		i++
	}
	return i
}

// scanString checks a string whose opening quote is before b[i]. It returns the index behind the closing one, or that of the flaw.
func scanString(b []byte, i int) (int, flaw) {
	for {
		if i = plain(b, i); i == len(b) {
			return i, flawEnd
		}
		if b[i] == '"' {
			return i + 1, sound
		}
		_, size, f := oddity(b, i)
		if f != sound {
			return i, f
		}
		i += size
	}
}

// oddity reads the special character at b[i], which is no quote: an escape sequence, a pair of escaped surrogates, or a character beyond
// ASCII. size is in bytes.
func oddity(b []byte, i int) (r rune, size int, f flaw) {
	switch c := b[i]; {
	case c == '\\':
		return escape(b[i:])
	case c < ' ':
		return 0, 0, flawControl
	}
	r, size = utf8.DecodeRune(b[i:])
	if r == utf8.RuneError && size == 1 {
		return 0, 0, flawUTF8
	}
	return r, size, sound
}

// Characters with a short escape sequence, and the letters of these.
const (
	escaped = "\"\\/\b\f\n\r\t"
	letters = `"\/bfnrt`
)

// escape reads the escape sequence that b begins with, or a pair of escaped surrogates.
func escape(b []byte) (r rune, size int, f flaw) {
	if len(b) < 2 {
		return 0, 0, flawEnd
	}
	if i := strings.IndexByte(letters, b[1]); i >= 0 {
		return rune(escaped[i]), 2, sound
	}
	r, ok := hex4(b)
	switch {
	case !ok:
		return 0, 0, flawEscape
	case !utf16.IsSurrogate(r):
		return r, 6, sound
	}
	low, _ := hex4(b[6:])
	if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
		return 0, 0, flawSurrogate
	}
	return r, 12, sound
}

// hex4 reads the escape sequence of four hexadecimal digits that b begins with.
func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	code, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(code), err == nil
}
