package event

import "unicode/utf8"

// MaxDepth is how deep a record's JSON may be nested. Our own records need 3; the rest is room for fields that we
// ignore. It is below the limit of the JSON library, whose own check would be made by recursion.
const MaxDepth = 64

// flaw is what is wrong with a JSON text; 0 is nothing.
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

// state is what scan looks for next.
type state uint8

const (
	wantValue state = iota
	wantValueOrClose
	wantKey
	wantKeyOrClose
	wantSeparator
)

// scan checks that b is one JSON document as RFC 8259 defines it, with the restrictions of RFC 7493 on text: valid
// UTF-8, and escaped surrogates only in pairs. It counts the values in it, or says what is wrong where.
//
// It stands before the JSON library's parser, because that one is lenient (NaN, +1, 01, unknown escapes, control
// characters: two readers of one topic must agree on what is faulty) and its errors quote all that is left of
// the record once per level, which makes a hostile record expensive. What passes here, it parses without error.
func scan(b []byte) (values, at int, f flaw) {
	var (
		i     int
		depth int
		inObj uint64 // one bit per open container, the innermost lowest: set in an object
		want  = wantValue
	)
	for {
		for i < len(b) && b[i] <= ' ' && isSpace(b[i]) {
			i++
		}
		if i == len(b) {
			if depth == 0 && want == wantSeparator {
				return values, i, sound
			}
			return values, i, flawEnd
		}
		c := b[i]
		switch {
		case c == ']' && (want == wantValueOrClose || want == wantSeparator && depth > 0 && inObj&1 == 0),
			c == '}' && (want == wantKeyOrClose || want == wantSeparator && depth > 0 && inObj&1 == 1):
			depth--
			inObj >>= 1
			i++
			want = wantSeparator
		case want == wantSeparator:
			if depth == 0 {
				return values, i, flawTrailing
			}
			if c != ',' {
				return values, i, flawUnexpected
			}
			i++
			want = wantValue
			if inObj&1 == 1 {
				want = wantKey
			}
		case want == wantKey || want == wantKeyOrClose:
			if i, f = scanName(b, i); f != sound {
				return values, i, f
			}
			want = wantValue
		case c == '{' || c == '[':
			if depth == MaxDepth {
				return values, i, flawDepth
			}
			values++
			depth++
			i++
			inObj <<= 1
			want = wantValueOrClose
			if c == '{' {
				inObj |= 1
				want = wantKeyOrClose
			}
		default:
			values++
			if i, f = scanScalar(b, i); f != sound {
				return values, i, f
			}
			want = wantSeparator
		}
	}
}

// scanName checks a member's name at b[i] and the colon, and returns the index behind them.
func scanName(b []byte, i int) (int, flaw) {
	if b[i] != '"' {
		return i, flawUnexpected
	}
	i, f := scanString(b, i+1)
	if f != sound {
		return i, f
	}
	for i < len(b) && isSpace(b[i]) {
		i++
	}
	switch {
	case i == len(b):
		return i, flawEnd
	case b[i] != ':':
		return i, flawUnexpected
	}
	return i + 1, sound
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// scanScalar checks the string, number or literal at b[i], and returns the index behind it.
func scanScalar(b []byte, i int) (int, flaw) {
	switch c := b[i]; {
	case c == '"':
		return scanString(b, i+1)
	case c == '-' || isDigit(c):
		return scanNumber(b, i)
	case c == 't':
		return scanLiteral(b, i, "true")
	case c == 'f':
		return scanLiteral(b, i, "false")
	case c == 'n':
		return scanLiteral(b, i, "null")
	}
	return i, flawUnexpected
}

func scanLiteral(b []byte, i int, word string) (int, flaw) {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return i, flawUnexpected
	}
	return i + len(word), sound
}

// scanNumber checks a number: -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?
func scanNumber(b []byte, i int) (int, flaw) {
	digits := func() bool {
		from := i
		for i < len(b) && isDigit(b[i]) {
			i++
		}
		return i > from
	}
	if b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if !digits() {
		return i, flawNumber
	}
	if i < len(b) && b[i] == '.' {
		i++
		if !digits() {
			return i, flawNumber
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		if !digits() {
			return i, flawNumber
		}
	}
	return i, sound
}

// special marks the bytes of a string that need a closer look than the printable ASCII characters do.
var special = func() (t [256]bool) {
	for c := range t {
		t[c] = c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf
	}
	return t
}()

// scanString checks a string whose opening quote stands before b[i], and returns the index behind the closing one.
func scanString(b []byte, i int) (int, flaw) {
	for i < len(b) {
		c := b[i]
		if !special[c] {
			i++
			continue
		}
		switch {
		case c == '"':
			return i + 1, sound
		case c == '\\':
			next, f := scanEscape(b, i)
			if f != sound {
				return i, f
			}
			i = next
		case c < ' ':
			return i, flawControl
		default:
			r, size := utf8.DecodeRune(b[i:])
			if r == utf8.RuneError && size == 1 {
				return i, flawUTF8
			}
			i += size
		}
	}
	return i, flawEnd
}

// scanEscape checks the escape sequence at b[i], both of them for a pair of surrogates, and returns the index behind.
func scanEscape(b []byte, i int) (int, flaw) {
	if i+1 >= len(b) {
		return i, flawEnd
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2, sound
	case 'u':
	default:
		return i, flawEscape
	}
	r, ok := hex4(b, i+2)
	if !ok {
		return i, flawEscape
	}
	i += 6
	if r < 0xD800 || r > 0xDFFF {
		return i, sound
	}
	if r > 0xDBFF || i+1 >= len(b) || b[i] != '\\' || b[i+1] != 'u' {
		return i, flawSurrogate
	}
	if low, ok := hex4(b, i+2); !ok || low < 0xDC00 || low > 0xDFFF {
		return i, flawSurrogate
	}
	return i + 6, sound
}

// hex4 reads the four hexadecimal digits at b[i].
func hex4(b []byte, i int) (r uint32, ok bool) {
	if len(b)-i < 4 {
		return 0, false
	}
	for _, c := range b[i : i+4] {
		d, ok := hexDigit(c)
		if !ok {
			return 0, false
		}
		r = r<<4 | uint32(d)
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
