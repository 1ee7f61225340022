package config

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/ranker-worker/ranker-worker/policy"
)

// schema is a piece of JSON Schema, draft 7, the version that editors support best.
type schema = map[string]any

// WriteSchema writes the JSON Schema of configurations, for editors: the tables of settings, and the rules on several keys that a schema
// can express. It accepts all that Load accepts; lint reports the rest.
func WriteSchema(w io.Writer) error {
	root := object(settings)
	properties := root["properties"].(schema)
	properties["learners"] = schema{
		"type": "object", "minProperties": 1, "description": "each learner's settings, by its name",
		"propertyNames":        schema{"pattern": "^[a-z0-9._-]+$", "maxLength": longestLearner, "not": schema{"enum": reservedNames}},
		"additionalProperties": ruled(object(learnerSettings), append(partnerRules(), schema{"type": "object"})),
	}
	properties["experiments"] = schema{
		"type": []string{"object", "null"}, "description": "each experiment's settings, by the name of the learner whose impressions it is for",
		"additionalProperties": ruled(object(experimentSettings), []schema{{"type": "object"}}),
	}
	root = ruled(root, []schema{needs("kafka", "redis", "learners"), withoutSelections})
	root["$schema"], root["title"] = "http://json-schema.org/draft-07/schema#", "ranker-worker's configuration"
	root["type"], root["definitions"] = "object", schema{"reference": reference}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(root); err != nil {
		return fmt.Errorf("writing the schema: %w", err)
	}
	return nil
}

func object[O any](all []setting[O]) schema {
	standard := standardOf(all)
	properties, needed := schema{}, []string{}
	for _, t := range all {
		if t.start == nil {
			properties[t.key] = ruled(object(t.parts), t.editor["allOf"].([]schema))
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
	return schema{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false, "required": needed}
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
	for _, k := range policy.Kinds {
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

func ruled(s schema, rules []schema) schema {
	if len(rules) > 0 {
		s["allOf"] = rules
	}
	return s
}

// reference is a text with ${VAR}, whose value depends on the environment.
var reference = pattern(`(^|[^$])\$\{[A-Za-z_][A-Za-z0-9_]*(:[^}]*)?\}`)

func orReference(options ...schema) schema {
	return schema{"anyOf": append(options, schema{"$ref": "#/definitions/reference"})}
}

func pattern(p string) schema { return schema{"type": "string", "pattern": p} }

var (
	// unquoted is the type that YAML gives some unquoted texts.
	unquoted = schema{"type": []string{"number", "boolean"}}
	numeric  = pattern(`^[+-]?[0-9.]+([eE][+-]?[0-9]+)?$`)
	aNumber  = orReference(schema{"type": "number"}, numeric)
)

// Host names in checkHost's format, IPv4 addresses included: the last label is not a number.
const (
	labelPattern    = `[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?`
	lastPattern     = `([0-9]*[A-Za-z_]([A-Za-z0-9_-]*[A-Za-z0-9_])?|[0-9]+-[A-Za-z0-9_-]*[A-Za-z0-9_])`
	bytePattern     = `(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])`
	hostPattern     = `((` + labelPattern + `\.)*` + lastPattern + `\.?|(` + bytePattern + `\.){3}` + bytePattern + `)`
	portPattern     = `0*([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])`
	registryPattern = `^https?://(` + hostPattern + `|\[[0-9A-Fa-f:.]+\])(:` + portPattern + `)?(/[A-Za-z0-9._~/-]*)?$`
	urlPattern      = `^rediss?://([^@/?#]*@)?(` + hostPattern + `|\[[^\]]+\])(:(` + portPattern + `)?)?/*[0-9]*/*$`
)

// Rules on several keys. A check makes each of them too, with a message.
var (
	tlsRules = []schema{when(is("cert_file", schema{"minLength": 1}), needs("key_file")),
		when(is("key_file", schema{"minLength": 1}), needs("cert_file"))}

	serveRules = []schema{when(schema{"required": []string{"cert_file"}}, needs("key_file")),
		when(schema{"required": []string{"key_file"}}, needs("cert_file"))}

	saslRules = []schema{
		when(schema{"minProperties": 1}, needs("mechanism")),
		when(is("mechanism", schema{"enum": []Mechanism{Plain, ScramSHA256, ScramSHA512}}), userRules),
		when(is("mechanism", schema{"const": OAuthBearer}), either("token_file", "token_url")),
		when(all(is("mechanism", schema{"const": OAuthBearer}), needs("token_url")), userRules),
		lacks("password", "password_file"), lacks("token_file", "token_url"),
	}
	userRules = all(needs("username"), either("password", "password_file"))

	kafkaRules = []schema{{"type": "object"},
		when(is("formats", schema{"anyOf": []schema{is("impressions", schema{"const": Avro}), is("selections", schema{"const": Avro}),
			is("payoffs", schema{"const": Avro})}}), all(needs("schema_registry"), where("schema_registry", schema{"type": "object", "required": []string{"url"}})))}

	registryRules = []schema{
		lacks("password", "password_file"), lacks("username", "token_file"), lacks("password", "token_file"), lacks("password_file", "token_file"),
		when(schema{"required": []string{"username"}}, either("password", "password_file")),
		when(either("password", "password_file"), needs("username")),
		when(is("url", pattern("^http://")), where("tls", schema{"anyOf": []schema{{"maxProperties": 0}, is("enabled", not(schema{"const": true}))}})),
		when(is("url", pattern("^https://")), where("tls", where("enabled", not(schema{"const": false})))),
	}

	redisRules = []schema{
		{"type": "object"}, either("url", "addresses"), lacks("url", "addresses"), lacks("password", "password_file"),
		when(is("addresses", schema{"type": "array", "minItems": 2, "uniqueItems": true}),
			all(needs("cluster"), where("cluster", not(schema{"const": false})))),
		when(is("cluster", schema{"const": true}), where("db", schema{"maximum": 0})),
		when(schema{"required": []string{"addresses", "username"}}, either("password", "password_file")),
		// A user in the URL excludes username.
		when(is("url", pattern("^rediss?://[^:/@]+(:[^@]*)?@")), lacks("username")),
		when(is("url", pattern("^rediss?://[^:/@]*:[^@]+@")), all(lacks("password"), lacks("password_file"))),
		when(is("url", pattern("^rediss://")), where("tls", where("enabled", not(schema{"const": false})))),
		when(is("url", pattern("^redis://")), where("tls", schema{"anyOf": []schema{{"maxProperties": 0}, is("enabled", not(schema{"const": true}))}})),
	}

	// joinRules: parking needs time and room.
	joinRules = []schema{
		when(is("parking_time", nothing), where("max_parked", not(nothing))),
	}
	nothing = schema{"enum": []any{0, "0", "0s"}}

	windowsRules = []schema{
		{"type": "object"},
		lacks("list", "geometric"), lacks("list", "zipf"), lacks("geometric", "zipf"), lacks("list", "max"),
		when(is("learned", schema{"const": true}), all(lacks("list"), lacks("geometric"), lacks("zipf"))),
		when(is("learned", schema{"const": false}), either("list", "geometric", "zipf")),
		{"anyOf": []schema{either("list", "geometric", "zipf"),
			where("max", schema{"maximum": policy.MaxWindows})}},
	}

	withoutSelections = when(is("kafka", is("topics", is("selections", schema{"const": ""}))),
		where("learners", schema{"additionalProperties": schema{"allOf": []schema{
			lacks("selection_timeout"), where("utilities", not(schema{"const": Social}))}}}))
)

// partnerRules are the rules on payoffs and policies, combinations, and policies that need a bound.
func partnerRules() (rules []schema) {
	for _, p := range []Payoffs{Stochastic, Adversarial} {
		var policies []string
		var delays []Delay
		for _, k := range policy.Kinds {
			if k.IsAdversarial() == (p == Adversarial) {
				policies = append(policies, k.Name)
			}
		}
		for _, d := range Delays() {
			if Together(defaultPolicy(p, d), d) == nil {
				delays = append(delays, d)
			}
		}
		rules = append(rules, when(is("payoffs", schema{"const": p}), only("policy", policies)),
			when(all(is("payoffs", schema{"const": p}), lacks("policy")), only("delay", delays)))
	}
	for _, k := range policy.Kinds {
		var delays []Delay
		for _, d := range Delays() {
			if Together(Policy(k.Name), d) == nil {
				delays = append(delays, d)
			}
		}
		this := is("policy", schema{"const": k.Name})
		if rules = append(rules, when(this, only("delay", delays))); k.Confident {
			rules = append(rules, when(this, where("sigma", not(schema{"const": "auto"}))))
		}
		if k.Follow != nil { // checkRobust
			rules = append(rules, when(this, where("silence", not(schema{"const": AtOnce}))))
		}
	}
	return rules
}

func when(condition, then schema) schema { return schema{"if": condition, "then": then} }

func all(rules ...schema) schema { return schema{"allOf": rules} }

func not(s schema) schema { return schema{"not": s} }

func needs(keys ...string) schema { return schema{"required": keys} }

// is matches a key that is present, with a value.
func is(key string, value schema) schema {
	return schema{"type": "object", "required": []string{key}, "properties": schema{key: value}}
}

// where constrains a key's value if it is present.
func where(key string, value schema) schema { return schema{"properties": schema{key: value}} }

func only[T ~string](key string, words []T) schema {
	return where(key, orReference(schema{"enum": words}))
}

func either(keys ...string) schema {
	var options []schema
	for _, k := range keys {
		options = append(options, needs(k))
	}
	return schema{"anyOf": options}
}

func lacks(keys ...string) schema { return not(schema{"type": "object", "required": keys}) }
