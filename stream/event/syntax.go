package event

import (
	"encoding/binary"
	"math/bits"
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

// escape reads the escape sequence that b begins with, or a pair of escaped surrogates.
func escape(b []byte) (r rune, size int, f flaw) {
	if len(b) < 2 {
		return 0, 0, flawEnd
	}
	switch c := b[1]; c {
	case '"', '\\', '/':
		return rune(c), 2, sound
	case 'b':
		return '\b', 2, sound
	case 'f':
		return '\f', 2, sound
	case 'n':
		return '\n', 2, sound
	case 'r':
		return '\r', 2, sound
	case 't':
		return '\t', 2, sound
	case 'u':
	default:
		return 0, 0, flawEscape
	}
	r, ok := hex4(b[2:])
	switch {
	case !ok:
		return 0, 0, flawEscape
	case r < 0xD800 || r > 0xDFFF:
		return r, 6, sound
	case r > 0xDBFF || len(b) < 8 || b[6] != '\\' || b[7] != 'u':
		return 0, 0, flawSurrogate
	}
	low, ok := hex4(b[8:])
	if !ok || low < 0xDC00 || low > 0xDFFF {
		return 0, 0, flawSurrogate
	}
	return 0x10000 + (r-0xD800)<<10 + low - 0xDC00, 12, sound
}

func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		d, ok := hexDigit(c)
		if !ok {
			return 0, false
		}
		r = r<<4 | rune(d)
	}
	return r, true
}

func hexDigit(c byte) (d byte, ok bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}
