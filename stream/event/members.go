package event

import "slices"

// members reads the members of an object. Some have known names.
type members struct {
	names []string
	guess int    // next name, if fields are in the order of the documentation
	seen  uint32 // by name
	twice string // the last repeated one
	odd   slip   // the first misspelt one
}

// slip is an unknown field of an object that resembles a known one.
type slip struct {
	key  []byte
	name int      // index in of
	of   []string // the object's fields; nil: none
}

// name reads a member's name and the colon. It returns the index among the known names, or -1.
func (m *members) name(p *parser) int {
	i := m.guess
	if i == len(m.names) || !p.named(m.names[i]) {
		name := p.name()
		if i = slices.Index(m.names, string(name)); i < 0 {
			if m.odd.of == nil {
				m.odd = m.near(name)
			}
			return -1
		}
	}
	if m.seen&(1<<i) != 0 {
		m.twice = m.names[i]
	}
	m.seen |= 1 << i
	m.guess = i + 1
	return i
}

func (m *members) near(name []byte) slip {
	for i, known := range m.names {
		if near(name, known) {
			return slip{key: name, name: i, of: m.names}
		}
	}
	return slip{}
}

// slipped reports whether a known field is misspelt and absent.
func (m *members) slipped() bool { return m.odd.of != nil && m.seen&(1<<m.odd.name) == 0 }

// read reads an object: into[i] becomes the value of names[i], absent if null.
func (m *members) read(p *parser, into []value) {
	for more := p.enter('}'); more; more = p.next('}') {
		if i := m.name(p); i >= 0 {
			p.member(&into[i])
		} else {
			p.skip()
		}
	}
}

// member reads a member's value into v, absent if null. A repeated member may leave a mixture, but its record is refused.
func (p *parser) member(v *value) {
	if p.read(v); v.kind == null {
		v.kind = absent
	}
}
