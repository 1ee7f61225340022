package event

import "slices"

// members reads the members of an object, of which some have names that mean something.
type members struct {
	names []string
	guess int    // which of them is next, if they stand in the order of the documentation
	seen  uint32 // by name
	twice string // the last that was given again
	odd   slip   // the first that is nearly one of names
}

// slip is an unknown field of an object that is near one of ours.
type slip struct {
	key  []byte
	name int      // of ours, in
	of   []string // the object's; nil: there is none
}

// name reads a member's name and the colon, and gives its index among the names that mean something; -1 where it is none of them.
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

// slipped reports whether a field is misspelt, and not given correctly as well.
func (m *members) slipped() bool { return m.odd.of != nil && m.seen&(1<<m.odd.name) == 0 }

// read reads the object that is next: into[i] becomes the value of names[i]. One that is null is absent.
func (m *members) read(p *parser, into []value) {
	for more := p.enter('}'); more; more = p.next('}') {
		if i := m.name(p); i >= 0 {
			p.member(&into[i])
		} else {
			p.skip()
		}
	}
}

// member reads a member's value into v, absent where it is null. A member given twice may leave a mixture, but its
// record is refused.
func (p *parser) member(v *value) {
	if p.read(v); v.kind == null {
		v.kind = absent
	}
}
