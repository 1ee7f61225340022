package event

import "unicode/utf8"

// domState is the token that scan expects next.
type domState uint8

const (
	wantValue domState = iota
	wantValueOrClose
	wantKey
	wantKeyOrClose
	wantSeparator
)

// domScan checks that b is one JSON document (RFC 8259), with RFC 7493's rules for text: valid UTF-8, and escaped
// surrogates only in pairs. It returns the number of values, or the flaw and its place.
//
// It runs before the JSON library's parser, which is too lenient: it accepts NaN, +1, 01, unknown escapes and control
// characters. Two readers of a topic must agree on faults. Its errors also quote the rest of the record once per
// level, which makes a hostile record expensive. The library parses without error all that domScan accepts.
func domScan(b []byte) (values, at int, f flaw) {
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
			if i, f = domScanName(b, i); f != sound {
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
			if i, f = domScanScalar(b, i); f != sound {
				return values, i, f
			}
			want = wantSeparator
		}
	}
}

// domScanName checks a member's name at b[i] and the colon, and returns the index behind them.
func domScanName(b []byte, i int) (int, flaw) {
	if b[i] != '"' {
		return i, flawUnexpected
	}
	i, f := domScanString(b, i+1)
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

// domScanScalar checks the string, number or literal at b[i], and returns the index behind it.
func domScanScalar(b []byte, i int) (int, flaw) {
	switch c := b[i]; {
	case c == '"':
		return domScanString(b, i+1)
	case c == '-' || isDigit(c):
		return domScanNumber(b, i)
	case c == 't':
		return domScanLiteral(b, i, "true")
	case c == 'f':
		return domScanLiteral(b, i, "false")
	case c == 'n':
		return domScanLiteral(b, i, "null")
	}
	return i, flawUnexpected
}

func domScanLiteral(b []byte, i int, word string) (int, flaw) {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return i, flawUnexpected
	}
	return i + len(word), sound
}

// domScanNumber checks a number: -?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?
func domScanNumber(b []byte, i int) (int, flaw) {
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

// domScanString checks a string whose opening quote stands before b[i], and returns the index behind the closing one.
func domScanString(b []byte, i int) (int, flaw) {
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
			next, f := domScanEscape(b, i)
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

// domScanEscape checks the escape sequence at b[i], both of them for a pair of surrogates, and returns the index behind.
func domScanEscape(b []byte, i int) (int, flaw) {
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
	r, ok := domHex4(b, i+2)
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
	if low, ok := domHex4(b, i+2); !ok || low < 0xDC00 || low > 0xDFFF {
		return i, flawSurrogate
	}
	return i + 6, sound
}

// domHex4 reads the four hexadecimal digits at b[i].
func domHex4(b []byte, i int) (r uint32, ok bool) {
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
