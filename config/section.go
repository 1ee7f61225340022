package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// open reads a mapping. A nil node, or one without a value, is an empty mapping.
func (d *decoder) open(path string, where place, n *yaml.Node) *section {
	s := &section{d: d, path: path, at: where, fields: map[string]field{}, first: len(d.faults)}
	d.sections[path] = s
	if n == nil {
		return s
	}
	r, ok := d.resolve(path, n)
	if !ok || isNull(r) {
		return s
	}
	if r.Kind != yaml.MappingNode {
		d.fault(path, at(n), "must be a mapping of keys, not %s", kindOf(r))
		return s
	}
	s.take(r, 0)
	return s
}

// take adds a mapping's fields. Own fields win over merged ones (<<), earlier merged ones over later.
func (s *section) take(n *yaml.Node, depth int) {
	own := map[string]place{}
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		s.d.visits++
		if s.d.visits > maxVisits {
			return
		}
		if k.Kind != yaml.ScalarNode || isNull(k) {
			s.d.fault(s.path, at(k), "a key must be a word")
			continue
		}
		if k.Tag == "!!merge" {
			merged = append(merged, v)
			continue
		}
		if first, twice := own[k.Value]; twice {
			s.d.fault(s.join(k.Value), at(k), "this key stands twice; first in line %d", first.line)
			continue
		}
		own[k.Value] = at(k)
		if _, overridden := s.fields[k.Value]; !overridden {
			s.fields[k.Value] = field{at: at(k), value: v}
			s.order = append(s.order, k.Value)
		}
	}
	for _, m := range merged {
		s.merge(m, depth)
	}
}

func (s *section) merge(n *yaml.Node, depth int) {
	const deepest = 10 // of mappings that merge mappings
	r, ok := s.d.resolve(s.join("<<"), n)
	switch {
	case !ok:
	case depth >= deepest:
		s.d.fault(s.join("<<"), at(n), "merged mappings nest too deep")
	case r.Kind == yaml.MappingNode:
		s.take(r, depth+1)
	case r.Kind == yaml.SequenceNode:
		for _, m := range r.Content {
			s.merge(m, depth+1)
		}
	default:
		s.d.fault(s.join("<<"), at(n), "must name a mapping")
	}
}

func (s *section) join(key string) string {
	if s.path == "" {
		return key
	}
	return s.path + "." + key
}

// ask looks a key up, and marks it as known.
func (s *section) ask(key string) (field, bool) {
	if !slices.Contains(s.known, key) {
		s.known = append(s.known, key)
	}
	f, ok := s.fields[key]
	if ok {
		s.d.places[s.join(key)] = f.at
	}
	return f, ok
}

func (s *section) has(key string) bool {
	_, ok := s.fields[key]
	return ok
}

// ok reports whether the values of all keys are usable: a default, or without a fault.
func (s *section) ok(keys ...string) bool {
	return !slices.ContainsFunc(keys, func(k string) bool { return s.d.bad[s.join(k)] })
}

// fault reports a key of this section at the key's value, or at the section if the file does not set it.
func (s *section) fault(key, format string, args ...any) {
	s.d.fault(s.join(key), s.where(key), format, args...)
}

func (s *section) warn(key, format string, args ...any) {
	s.d.warn(s.join(key), s.where(key), format, args...)
}

// missing reports a required key, unless the section is faulty as a whole, or has the key misspelt: one mistake, one line.
func (s *section) missing(key, format string, args ...any) {
	if !s.d.bad[s.path] {
		s.d.missing = append(s.d.missing, Fault{File: s.d.file, Line: s.where(key).line, Column: s.where(key).column,
			Key: s.join(key), Message: fmt.Sprintf(format, args...)})
	}
}

func (s *section) where(key string) place {
	f, ok := s.fields[key]
	switch {
	case !ok:
		return s.at
	case f.value.Kind == yaml.ScalarNode:
		return at(f.value)
	}
	return f.at
}

func (s *section) section(key string) *section {
	if f, ok := s.ask(key); ok {
		return s.d.open(s.join(key), f.at, f.value)
	}
	return s.d.open(s.join(key), s.at, nil)
}

// close records the unknown keys.
func (s *section) close() {
	for _, key := range s.order {
		if !slices.Contains(s.known, key) {
			s.d.unknown = append(s.d.unknown, unknownKey{at: s.fields[key].at, section: s.path, key: key, known: s.known})
		}
	}
}

func (s *section) text(key string) (expansion, bool) {
	f, ok := s.ask(key)
	if !ok {
		return expansion{}, false
	}
	return s.d.text(s.join(key), f.value)
}

func set[T any](s *section, key string, dst *T, parse func(string) (T, error)) {
	e, ok := s.text(key)
	if !ok {
		return
	}
	v, err := parse(e.text)
	if err != nil {
		s.fault(key, "%v", err)
		return
	}
	*dst = v
}

// secret reads a string that no message shows. It warns of one in the file itself.
func (s *section) secret(key string, dst *Secret) {
	e, ok := s.text(key)
	if !ok {
		return
	}
	if e.text == "" {
		s.fault(key, "is empty")
		return
	}
	switch {
	case e.text == Mask:
		s.warn(key, "is the mask that `lint --print` puts in a secret's place")
	case e.references == 0:
		s.warn(key, "the secret stands in the file; use ${VAR} or %s_file", key)
	}
	*dst = Secret(e.text)
}

// addresses reads a list of host:port; a fault names the element.
func (s *section) addresses(key string) (good []string) {
	items, _ := s.items(key)
	path := s.join(key)
	for _, it := range items {
		if err := checkAddress(it.text, false); err != nil {
			if it.text != "" || !s.d.bad[path] {
				s.d.fault(path, it.at, "%v", err)
			}
			continue
		}
		if slices.Contains(good, it.text) {
			s.d.warn(path, it.at, "%s stands twice", it.text)
			continue
		}
		good = append(good, it.text)
	}
	return good
}

// numbers reads a list of finite numbers, exactly n unless n is 0. A fault of number i is reported for the key name(i).
func (s *section) numbers(key string, n int, name func(i int) string) ([]float64, bool) {
	items, ok := s.items(key)
	if !ok {
		return nil, false
	}
	if n > 0 && len(items) != n {
		s.fault(key, "needs %d numbers, has %d", n, len(items))
		return nil, false
	}
	out := make([]float64, len(items))
	for i, it := range items {
		x, err := parseFloat(it.text)
		if err != nil {
			s.d.fault(s.join(name(i)), it.at, "%v", err)
			s.d.bad[s.join(key)] = true
			ok = false
		}
		out[i] = x
	}
	return out, ok
}

// elements returns a list's nodes, and stores their positions under the key with their index.
func (s *section) elements(key string) (all []*yaml.Node) {
	f, ok := s.ask(key)
	if !ok {
		return nil
	}
	r, ok := s.d.resolve(s.join(key), f.value)
	if !ok || isNull(r) {
		return nil
	}
	if r.Kind != yaml.SequenceNode {
		s.d.fault(s.join(key), f.at, "must be a list, not %s", kindOf(r))
		return nil
	}
	for i, n := range r.Content {
		path := s.join(key + "[" + strconv.Itoa(i) + "]")
		s.d.places[path] = at(n)
		if n, ok = s.d.resolve(path, n); !ok {
			return nil
		}
		all = append(all, n)
	}
	return all
}

// items reads the expanded scalars of a list, or of one value with commas between, as in environment variables.
func (s *section) items(key string) (items []item, ok bool) {
	f, ok := s.ask(key)
	if !ok {
		return nil, false
	}
	path := s.join(key)
	r, ok := s.d.resolve(path, f.value)
	if !ok {
		return nil, false
	}
	if r.Kind == yaml.MappingNode {
		s.d.fault(path, f.at, "must be a list, not a mapping")
		return nil, false
	}
	if r.Kind == yaml.ScalarNode {
		e, ok := s.d.text(path, f.value)
		if !ok {
			return nil, false
		}
		for _, text := range strings.Split(e.text, ",") {
			items = append(items, item{text: strings.TrimSpace(text), at: at(f.value)})
		}
		return items, true
	}
	all := true
	for i, n := range r.Content {
		e, ok := s.d.text(path+"["+strconv.Itoa(i)+"]", n)
		all = all && ok
		items = append(items, item{text: e.text, at: at(n)})
	}
	if !all {
		s.d.bad[path] = true
	}
	return items, all
}

type item struct {
	text string
	at   place
}

func within[T int | int64 | time.Duration](v, least, most T, format func(T) string) error {
	if v < least || v > most {
		return fmt.Errorf("%s is outside %s to %s", format(v), format(least), format(most))
	}
	return nil
}

func toStrings[T ~string](values []T) []string {
	out := make([]string, len(values))
	for i, v := range values {
		out[i] = string(v)
	}
	return out
}

// choice lists values in a sentence: "is a", "are a and b".
func choice[T ~string](one, many string, values []T) string {
	names := toStrings(values)
	if len(names) == 1 {
		return one + " only " + names[0]
	}
	last := len(names) - 1
	return many + " " + strings.Join(names[:last], ", ") + " and " + names[last]
}
