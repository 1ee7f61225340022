package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"
)

const (
	MaxFileBytes = 1 << 20
	// maxVisits bounds the work on one file, since aliases can repeat a mapping.
	maxVisits = 100_000
)

// Files are files that a configuration names, by who uses them.
type Files int

const (
	KafkaFiles Files = iota // certificates, passwords and tokens for Kafka and the schema registry
	RedisFiles
	ServeFiles // certificate and tokens of `serve`
)

// decoder reads the YAML nodes of one file by the known keys, and collects faults. Its recursion is as deep as the configuration, not as
// the file.
type decoder struct {
	file     string
	env      Env
	faults   []Fault
	warnings []Fault
	places   map[string]place // by key path, of keys in the file
	bad      map[string]bool  // key paths with a fault
	unknown  []unknownKey
	missing  []Fault             // kept apart until unknown keys are known
	sections map[string]*section // by key path
	visits   int
}

// section is one mapping of the file. A key that is never asked for is unknown.
type section struct {
	d      *decoder
	path   string // "" for the file's top
	at     place
	fields map[string]field
	order  []string // in the file's order
	known  []string // keys asked for
	first  int      // number of faults before this section
}

type field struct {
	at    place // of the key
	value *yaml.Node
}

func (d *decoder) fault(key string, at place, format string, args ...any) {
	d.bad[key] = true
	d.faults = append(d.faults, Fault{File: d.file, Line: at.line, Column: at.column, Key: key, Message: fmt.Sprintf(format, args...)})
}

func (d *decoder) warn(key string, at place, format string, args ...any) {
	d.warnings = append(d.warnings, Fault{File: d.file, Line: at.line, Column: at.column, Key: key,
		Message: fmt.Sprintf(format, args...), Warning: true})
}

// parse reads the file's one document. An empty file is an empty mapping.
func (d *decoder) parse(data []byte) (*yaml.Node, bool) {
	top := place{line: 1}
	if len(data) > MaxFileBytes {
		d.fault("", top, "the file is larger than %s", formatSize(MaxFileBytes))
		return nil, false
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return &yaml.Node{Kind: yaml.MappingNode, Line: 1}, true
		}
		d.syntax(err, data)
		return nil, false
	}
	var second yaml.Node
	switch err := dec.Decode(&second); {
	case err == nil:
		d.fault("", at(&second), "a second document begins here; a configuration is one document")
		return nil, false
	case !errors.Is(err, io.EOF):
		d.syntax(err, data)
		return nil, false
	}
	if len(doc.Content) != 1 {
		return &yaml.Node{Kind: yaml.MappingNode, Line: 1}, true
	}
	return doc.Content[0], true
}

// syntax reports that the file is not YAML. The parser stops at its first error.
func (d *decoder) syntax(err error, data []byte) {
	where, message := place{line: 1}, strings.TrimPrefix(err.Error(), "yaml: ")
	var le *yaml.LoadError
	if errors.As(err, &le) {
		// A missing key is reported in the line behind the last.
		last := 1 + bytes.Count(bytes.TrimSuffix(data, []byte("\n")), []byte("\n"))
		where = place{line: min(max(1, le.Mark.Line), last), column: le.Mark.Column}
		message = le.Message
	}
	hint := ""
	if line := lineOf(data, where.line); flowReference.Match(line) {
		hint = "; between { } or [ ], ${…} has to stand in quotes: password: \"${VAR}\""
	}
	d.fault("", where, "not valid YAML: %s%s", message, hint)
}

// flowReference matches an unquoted reference to the environment between brackets, where YAML reads its brace as its own.
var flowReference = regexp.MustCompile(`[{\[](.*[:,\[])? *\$\{`)

func lineOf(data []byte, number int) []byte {
	n := 0
	for line := range bytes.Lines(data) {
		if n++; n == number {
			return line
		}
	}
	return nil
}

func at(n *yaml.Node) place { return place{line: max(1, n.Line), column: n.Column} }

// resolve follows an alias, and refuses nodes with a custom tag.
func (d *decoder) resolve(path string, n *yaml.Node) (*yaml.Node, bool) {
	d.visits++
	if d.visits > maxVisits {
		return nil, false
	}
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n == nil || n.Kind == yaml.AliasNode {
		return nil, false
	}
	switch n.Tag {
	case "", "!", "!!str", "!!int", "!!float", "!!bool", "!!null", "!!timestamp", "!!map", "!!seq", "!!merge":
		return n, true
	}
	d.fault(path, at(n), "the tag %s is not used here", quote(n.Tag))
	return nil, false
}

// isNull reports whether a scalar has no value. The quoted "" has one.
func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Tag == "!!null" && n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) == 0
}

func kindOf(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	return "a single value"
}

func (d *decoder) text(path string, n *yaml.Node) (expansion, bool) {
	r, ok := d.resolve(path, n)
	if !ok {
		return expansion{}, false
	}
	if r.Kind != yaml.ScalarNode {
		d.fault(path, at(n), "must be a single value, not %s", kindOf(r))
		return expansion{}, false
	}
	if isNull(r) {
		d.fault(path, at(n), "has no value; leave the key out for its default")
		return expansion{}, false
	}
	e, err := expand(r.Value, d.env)
	if err != nil {
		d.fault(path, at(n), "%v", err)
		return expansion{}, false
	}
	if e.shellStyle {
		d.warn(path, at(n), "a default of ${VAR:default} that begins with '-' keeps it; the shell's ${VAR:-default} is ${VAR:default} here")
	}
	return e, true
}

// unknownKey is reported last, when all known keys have been asked for.
type unknownKey struct {
	at           place
	section, key string
	known        []string
}

func sameNode(a, b *yaml.Node) bool {
	if a == nil || b == nil {
		return a == b
	}
	return inline(a) == inline(b)
}

// inline returns a value as it stands behind its key, on one line.
func inline(n *yaml.Node) string {
	text, err := yaml.Dump(n, yaml.WithLineWidth(-1))
	if err != nil {
		panic(fmt.Sprintf("config: a value that Print shows cannot be shown: %v", err))
	}
	return strings.TrimSpace(string(text))
}
