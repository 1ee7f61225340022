package config

import (
	"fmt"
	"maps"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/ranker-worker/ranker-worker/policy"
)

// object returns the schema of a mapping. One without a required key may be empty.
func object[O any](all []setting[O]) schema {
	standard := standardOf(all)
	properties, out := schema{}, schema{"type": []string{"object", "null"}, "additionalProperties": false}
	var needed []string
	for _, t := range all {
		if t.start == nil {
			properties[t.key] = object(t.parts)
			continue
		}
		p := maps.Clone(t.editor)
		p["description"] = t.description()
		if n := t.print(&standard); n != nil {
			p["default"] = jsonOf(n)
		}
		properties[t.key] = p
		if t.needed != "" && t.read != nil {
			needed = append(needed, t.key)
			delete(p, "default")
		}
	}
	if len(needed) > 0 {
		out["type"], out["required"] = "object", needed
	}
	out["properties"] = properties
	return out
}

// filled is a mapping that may not be left without a value.
func filled(s schema) schema {
	s["type"] = "object"
	return s
}

func (t *setting[O]) description() string {
	var d strings.Builder
	d.WriteString(t.about)
	if t.span != "" {
		fmt.Fprintf(&d, " (%s)", t.span)
	}
	if t.effect != nil {
		fmt.Fprintf(&d, "; for %s", strings.Join(t.policies(), ", "))
	}
	return strings.ReplaceAll(d.String(), "`", "")
}

func (t *setting[O]) policies() (names []string) {
	for _, k := range policy.Specs {
		if t.hasEffect(k) {
			names = append(names, k.Name)
		}
	}
	return names
}

func jsonOf(n *yaml.Node) (v any) {
	if err := n.Decode(&v); err != nil {
		panic(fmt.Sprintf("config: a default that is no YAML: %v", err))
	}
	return v
}

// reference is a text with ${VAR}, whose value depends on the environment.
var reference = pattern(`(^|[^$])\$\{[A-Za-z_][A-Za-z0-9_]*(:[^}]*)?\}`)

func orReference(options ...schema) schema {
	return schema{"anyOf": append(options, schema{"$ref": "#/definitions/reference"})}
}

func pattern(p string) schema { return schema{"type": "string", "pattern": p} }

var (
	// anyText includes the types that YAML gives to some texts without quotes.
	anyText = schema{"type": []string{"string", "number", "boolean"}}
	numeric = pattern(`^[+-]?[0-9.]+([eE][+-]?[0-9]+)?$`)
	aNumber = orReference(schema{"type": "number"}, numeric)
)
