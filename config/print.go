package config

import (
	"strconv"

	"go.yaml.in/yaml/v4"
)

type mapping []*yaml.Node

func (m *mapping) add(key string, value *yaml.Node) {
	*m = append(*m, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, value)
}

// node returns the mapping, on one line if flow is set or it is empty.
func (m mapping) node(flow bool) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: m}
	if flow || len(m) == 0 {
		n.Style = yaml.FlowStyle
	}
	return n
}

// text returns a string node: quoted if YAML needs it, and with ${ kept literal.
func text(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: escape(s)}
}

func plain(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }

func integer(n int) *yaml.Node { return plain(strconv.Itoa(n)) }

func boolean(b bool) *yaml.Node { return plain(strconv.FormatBool(b)) }

// sequence returns a list on one line.
func sequence[V any](all []V, print func(V) *yaml.Node) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Style: yaml.FlowStyle}
	for _, v := range all {
		n.Content = append(n.Content, print(v))
	}
	return n
}

func list(items []string) *yaml.Node {
	if items == nil {
		return nil
	}
	return sequence(items, text)
}

func printNumbers(items []float64) *yaml.Node { return sequence(items, float) }

func float(x float64) *yaml.Node { return plain(formatFloat(x)) }
