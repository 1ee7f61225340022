package config

import (
	"go.yaml.in/yaml/v4"

	"github.com/ranker-worker/ranker-worker/policy"
)

// setting is a key of the file: default, reader, printer, and description for users and editors. O is the type that it sets: the whole
// configuration, a learner, or a mapping.
//
// A section has parts, and neither reads nor prints. A value that may be a mapping has both: it reads its parts itself. A key that does not
// read is read by a check, which needs other values.
type setting[O any] struct {
	key    string
	about  string                  // for users, in Markdown
	kind   string                  // kind of its value, in a word or two
	span   string                  // allowed values, in Markdown
	needed string                  // message if it is missing, by the check that reads it if there is one; empty: optional
	editor schema                  // allowed values, for editors
	effect func(*policy.Spec) bool // policies that use it; nil: all
	parts  []setting[O]

	start func(*O)
	read  func(*section, *O)
	print func(*O) *yaml.Node // nil: not shown
}

type kind[V any] struct {
	name, span string
	read       func(s *section, key string, dst *V)
	print      func(V) *yaml.Node
	editor     schema
	parts      []setting[V] // if it may be a mapping
}

// value returns a setting with a value.
func value[O, V any](key string, where func(*O) *V, k kind[V], standard V, about string) setting[O] {
	return setting[O]{key: key, about: about, kind: k.name, span: k.span, editor: k.editor, parts: lift(where, k.parts),
		start: func(o *O) { *where(o) = standard },
		read:  func(s *section, o *O) { k.read(s, key, where(o)) },
		print: func(o *O) *yaml.Node { return k.print(*where(o)) }}
}

func sectionOf[O, V any](key string, where func(*O) *V, parts []setting[V]) setting[O] {
	return setting[O]{key: key, parts: lift(where, parts)}
}

// lift makes settings of a part settings of the whole.
func lift[O, V any](where func(*O) *V, parts []setting[V]) []setting[O] {
	var out []setting[O]
	for _, p := range parts {
		lifted := setting[O]{key: p.key, about: p.about, kind: p.kind, span: p.span, needed: p.needed, editor: p.editor,
			effect: p.effect, parts: lift(where, p.parts)}
		if p.start != nil {
			lifted.start = func(o *O) { p.start(where(o)) }
		}
		if p.read != nil {
			lifted.read = func(s *section, o *O) { p.read(s, where(o)) }
		}
		if p.print != nil {
			lifted.print = func(o *O) *yaml.Node { return p.print(where(o)) }
		}
		out = append(out, lifted)
	}
	return out
}

func (t setting[O]) with(effect func(*policy.Spec) bool) setting[O] {
	t.effect = effect
	for i := range t.parts {
		t.parts[i].effect = effect
	}
	return t
}

// orElse makes a setting required, with the message if it is missing.
func (t setting[O]) orElse(message string) setting[O] { t.needed = message; return t }

// within sets the allowed values, if the kind does not know all of them.
func (t setting[O]) within(span string) setting[O] { t.span = span; return t }

// unless hides a setting.
func (t setting[O]) unless(hidden func(*O) bool) setting[O] {
	print := t.print
	t.print = func(o *O) *yaml.Node {
		if hidden(o) {
			return nil
		}
		return print(o)
	}
	return t
}

// unread marks a setting that a check reads.
func (t setting[O]) unread() setting[O] { t.read = nil; return t }

func (t *setting[O]) hasEffect(k *policy.Spec) bool { return t.effect == nil || t.effect(k) }

func standardOf[O any](all []setting[O]) (o O) {
	startAll(all, &o)
	return o
}

func startAll[O any](all []setting[O], o *O) {
	for _, t := range all {
		if t.start != nil {
			t.start(o)
		} else {
			startAll(t.parts, o)
		}
	}
}

// readAll reads all settings from the file, and marks their keys as known.
func readAll[O any](s *section, all []setting[O], o *O) {
	for _, t := range all {
		switch {
		case t.read != nil:
			t.read(s, o)
		case t.start == nil:
			sub := s.section(t.key)
			readAll(sub, t.parts, o)
			sub.close()
		default:
			s.ask(t.key)
		}
		if t.needed != "" && t.read != nil && !s.has(t.key) {
			s.missing(t.key, "%s", t.needed)
		}
	}
}

func printAll[O any](all []setting[O], o *O) mapping {
	var m mapping
	for _, t := range all {
		if t.print == nil {
			m.add(t.key, printAll(t.parts, o).node(false))
		} else if n := t.print(o); n != nil {
			m.add(t.key, n)
		}
	}
	return m
}

// paths returns all keys, with their sections' keys before them.
func paths[O any](prefix string, all []setting[O]) (out []string) {
	for _, t := range all {
		out = append(append(out, prefix+t.key), paths(prefix+t.key+".", t.parts)...)
	}
	return out
}

// schema is a piece of JSON Schema, draft 7, the version that editors support best.
type schema = map[string]any
