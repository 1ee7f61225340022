package event

import "unicode/utf8"

// parser reads one JSON document (RFC 8259), with RFC 7493's rules for text (valid UTF-8, escaped surrogates only in pairs) and at most
// MaxDepth levels. It reads each byte once. The caller names the expected piece:
//
//	for more := p.enter('}'); more; more = p.next('}') {
//		name := p.name()
//		v := p.value()
//	}
//	p.end()
//
// After a flaw results are undefined and loops end, so that one check at the end is enough.
type parser struct {
	b     []byte // texts are unescaped in place
	at    int    // of the flaw, if any
	depth int
	flaw  flaw
}

type kind uint8

const (
	absent kind = iota
	null
	object
	array
	text
	number
	isTrue
	isFalse
)

func (k kind) String() string {
	return [...]string{"absent", "null", "object", "array", "string", "number", "true", "false"}[k]
}

// value is a JSON value. The zero value is absent.
type value struct {
	kind kind
	// raw is an unescaped text without quotes, or the bytes of another value, which are valid.
	raw     []byte
	decimal decimal // of a number
}

func (p *parser) fail(at int, f flaw) {
	if p.flaw == sound {
		p.at, p.flaw = at, f
	}
}

func (p *parser) space() {
	for p.at < len(p.b) && p.b[p.at] <= ' ' && isSpace(p.b[p.at]) {
		p.at++
	}
}

func (p *parser) stands(c byte) bool { return p.at < len(p.b) && p.b[p.at] == c }

// enter enters an object or array that ends with closing, and reports whether it has a member or element. If not, the parser is behind it.
func (p *parser) enter(closing byte) bool {
	if p.depth == MaxDepth {
		p.fail(p.at, flawDepth)
		return false
	}
	p.at++
	p.space()
	if p.stands(closing) {
		p.at++
		return false
	}
	p.depth++
	return true
}

// next moves on behind a value in an object or array, and reports whether another member or element follows. If not, the parser is behind
// the object or array.
func (p *parser) next(closing byte) bool {
	if p.flaw != sound {
		return false
	}
	p.space()
	switch {
	case p.stands(','):
		p.at++
		p.space()
		return true
	case p.stands(closing):
		p.at++
		p.depth--
	default:
		p.unexpected()
	}
	return false
}

// unexpected sets the flaw for the next character, or for a missing one.
func (p *parser) unexpected() {
	if p.at == len(p.b) {
		p.fail(p.at, flawEnd)
	} else {
		p.fail(p.at, flawUnexpected)
	}
}

// end requires that the document ends.
func (p *parser) end() {
	if p.flaw != sound {
		return
	}
	if p.space(); p.at < len(p.b) {
		p.fail(p.at, flawTrailing)
	}
}

func (p *parser) name() []byte {
	if !p.stands('"') {
		p.unexpected()
		return nil
	}
	name := p.text()
	if p.flaw != sound {
		return nil
	}
	p.colon()
	return name
}

// named reads a member's name and the colon if it is that name, without escape sequences.
func (p *parser) named(name string) bool {
	end := p.at + 1 + len(name)
	if end >= len(p.b) || p.b[end] != '"' || p.b[p.at] != '"' || string(p.b[p.at+1:end]) != name {
		return false
	}
	p.at = end + 1
	p.colon()
	return true
}

func (p *parser) colon() {
	if p.space(); !p.stands(':') {
		p.unexpected()
		return
	}
	p.at++
	p.space()
}

func (p *parser) text() []byte {
	from := p.at + 1
	i := plain(p.b, from)
	if i == len(p.b) || p.b[i] != '"' {
		return p.oddText(from, i)
	}
	p.at = i + 1
	return p.b[from:i:i]
}

// oddText reads a string from b[from] on. b[i] is its first character that is not printable ASCII. An escape sequence is never shorter than
// its character.
func (p *parser) oddText(from, i int) []byte {
	b, end := p.b, i
	for {
		switch {
		case i == len(b):
			p.fail(i, flawEnd)
			return nil
		case b[i] == '"':
			p.at = i + 1
			return b[from:end:end]
		}
		r, size, f := oddity(b, i)
		if f != sound {
			p.fail(i, f)
			return nil
		}
		end += utf8.EncodeRune(b[end:end+utf8.RuneLen(r)], r)
		i += size
		next := plain(b, i)
		end += copy(b[end:], b[i:next])
		i = next
	}
}

func (p *parser) value() (v value) {
	p.read(&v)
	return v
}

// read reads any value into v, which is absent.
func (p *parser) read(v *value) {
	if p.at == len(p.b) || p.flaw != sound {
		p.fail(p.at, flawEnd)
		return
	}
	from := p.at
	switch c := p.b[from]; {
	case c == '"':
		v.kind, v.raw = text, p.text()
		return
	case c == '-' || isDigit(c):
		v.kind = number
		p.number(&v.decimal)
	case c == '{':
		v.kind = object
		p.skip()
	case c == '[':
		v.kind = array
		p.skip()
	case c == 'n':
		v.kind = null
		p.word("null")
	case c == 't':
		v.kind = isTrue
		p.word("true")
	case c == 'f':
		v.kind = isFalse
		p.word("false")
	default:
		p.unexpected()
	}
	v.raw = p.b[from:p.at]
}

func (p *parser) number(n *decimal) {
	end, f := scanNumber(p.b, p.at, n)
	if f != sound {
		p.fail(end, f)
		return
	}
	p.at = end
}

func (p *parser) word(w string) {
	if len(p.b)-p.at < len(w) || string(p.b[p.at:p.at+len(w)]) != w {
		p.fail(p.at, flawUnexpected)
		return
	}
	p.at += len(w)
}

// skip skips any value, without changing it. It calls itself at most MaxDepth levels deep.
func (p *parser) skip() {
	switch {
	case p.flaw != sound:
	case p.stands('{'):
		for more := p.enter('}'); more; more = p.next('}') {
			if !p.stands('"') {
				p.unexpected()
				return
			}
			if p.skipText(); p.flaw != sound { // white space behind a flaw would move it
				return
			}
			p.colon()
			p.skip()
		}
	case p.stands('['):
		for more := p.enter(']'); more; more = p.next(']') {
			p.skip()
		}
	case p.stands('"'):
		p.skipText()
	default:
		var scalar value
		p.read(&scalar)
	}
}

func (p *parser) skipText() {
	end, f := scanString(p.b, p.at+1)
	if f != sound {
		p.fail(end, f)
		return
	}
	p.at = end
}
