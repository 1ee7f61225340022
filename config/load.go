package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v4"
)

// LoadFile is Load for a file. An unreadable file is a fault too.
func LoadFile(path string, env Env, files ...Files) (cfg *Config, warnings []Fault, err error) {
	data, err := readFile(path, MaxFileBytes)
	if err != nil && !errors.Is(err, errTooLarge) { // Load refuses large ones
		return nil, nil, Faults{{File: path, Message: fmt.Sprintf("cannot be read: %v", err)}}
	}
	return Load(path, data, env, files...)
}

// Load makes a Config from a YAML document, called file in messages. The error is of type Faults, and then there is no Config; warnings are
// returned in either case, in the file's order. Of the files that the configuration names it checks only those given: that they are there,
// can be read by this process's user, and are well-formed.
func Load(file string, data []byte, env Env, files ...Files) (cfg *Config, warnings []Fault, err error) {
	d := &decoder{file: file, env: env, places: map[string]place{}, bad: map[string]bool{},
		sections: map[string]*section{}}
	if root, ok := d.parse(data); ok {
		cfg = d.config(root)
		for _, which := range files {
			d.checkFiles(cfg, which)
		}
	}
	if d.visits > maxVisits {
		d.faults = []Fault{{File: file, Line: 1, Message: fmt.Sprintf(
			"more than %d values, counting each use of an alias", maxVisits)}}
	}
	inOrder(d.faults)
	inOrder(d.warnings)
	if len(d.faults) > 0 {
		return nil, d.warnings, Faults(d.faults)
	}
	cfg.source = source{file: file, places: d.places}
	return cfg, d.warnings, nil
}

func (d *decoder) config(root *yaml.Node) *Config {
	c := Defaults()
	top := d.open("", place{line: 1}, root)
	readAll(top, settings, &c)
	in := func(path string) *section { return d.sections[path] }
	if s := in("kafka"); !s.has("group") {
		s.warn("group", "not set; whatever runs with the default %q on these brokers or in this Redis shares partitions and state", c.Kafka.Group)
	}
	checkTopics(in("kafka.topics"), &c.Kafka.Topics)
	checkTLS(in("kafka.tls"), &c.Kafka.TLS)
	checkSASL(in("kafka.sasl"), &c.Kafka)
	checkTLS(in("kafka.schema_registry.tls"), &c.Kafka.SchemaRegistry.TLS)
	checkRegistry(in("kafka.schema_registry"), &c.Kafka)
	checkTLS(in("redis.tls"), &c.Redis.TLS)
	d.checkRedis(in("redis"), &c.Redis)
	checkHTTP(in("http"), &c.HTTP)
	checkServe(in("serve"), &c.Serve)
	checkLimits(in("limits"), &c.Limits)
	checkParking(in("join"), &c.Join)
	checkRemember(in("join"), &c.Join)
	d.learners(top, &c)
	d.experiments(top, &c)
	top.close()
	d.reportUnknown(&c)
	return &c
}

// reportUnknown reports unknown keys, each with the one that was probably meant, and missing keys, unless they were meant.
func (d *decoder) reportUnknown(c *Config) {
	meant := map[string]bool{}
	homes := map[string]string{}
	if len(d.unknown) > 0 {
		homes = sectionsByKey(c)
	}
	for _, u := range d.unknown {
		path := u.key
		if u.section != "" {
			path = u.section + "." + u.key
		}
		hint := ""
		if near := nearest(u.key, u.known); near != "" {
			hint = fmt.Sprintf("; did you mean %s?", near)
			meant[strings.TrimSuffix(path, u.key)+near] = true
		} else if home := homes[normaliseKey(u.key)]; home != "" {
			hint = fmt.Sprintf("; did you mean %s?", home)
			meant[home] = true
		}
		// A key may be any text: quote it unless it is a plain word.
		if quoted := quote(u.key); len(quoted) != len(u.key)+2 {
			d.fault(u.section, u.at, "%s is not a key%s", quoted, hint)
			continue
		}
		d.fault(path, u.at, "unknown key%s", hint)
	}
	for _, f := range d.missing {
		if !meant[f.Key] && !d.bad[f.Key] && !d.bad[""] {
			d.faults = append(d.faults, f)
		}
	}
}

// sectionsByKey returns, for each normalised key, the first section that has it.
func sectionsByKey(c *Config) map[string]string {
	learner := "<name>"
	if len(c.Learners) > 0 {
		learner = c.Learners[0].Name
	}
	all := append(paths("", settings), "learners")
	all = append(all, paths("learners."+learner+".", learnerSettings)...)
	all = append(append(all, "experiments"), paths("experiments.<name>.", experimentSettings)...)
	homes := map[string]string{}
	for _, path := range all {
		word := normaliseKey(path[strings.LastIndexByte(path, '.')+1:])
		if _, has := homes[word]; !has {
			homes[word] = path
		}
	}
	return homes
}

func (d *decoder) checkFiles(c *Config, which Files) {
	switch which {
	case KafkaFiles:
		d.checkTLSFiles("kafka.tls", &c.Kafka.TLS)
		registry := &c.Kafka.SchemaRegistry
		d.checkTLSFiles("kafka.schema_registry.tls", &registry.TLS)
		d.checkSecret("kafka.schema_registry.password_file", registry.PasswordFile)
		d.checkSecret("kafka.schema_registry.token_file", registry.TokenFile)
		sasl := &c.Kafka.SASL
		d.checkSecret("kafka.sasl.token_file", sasl.TokenFile)
		_, f := authorities("kafka.sasl.token_ca_file", sasl.TokenCAFile)
		d.fileFaults(f)
		const key = "kafka.sasl.password_file"
		if err := sasl.Mechanism.carries(d.checkSecret(key, sasl.PasswordFile)); err != nil {
			d.fileFaults(&fileFault{key, sasl.PasswordFile, err})
		}
	case RedisFiles:
		d.checkTLSFiles("redis.tls", &c.Redis.TLS)
		d.checkSecret("redis.password_file", c.Redis.PasswordFile)
	case ServeFiles:
		d.checkTLSFiles("serve", c.Serve.tls())
		_, f := readTokens("serve.tokens_file", c.Serve.TokensFile)
		d.fileFaults(f)
	}
}

func (d *decoder) checkTLSFiles(section string, t *TLS) {
	if !t.Enabled {
		return
	}
	_, f := authorities(section+".ca_file", t.CAFile)
	_, faults := t.pair(section)
	d.fileFaults(append(faults, f)...)
}

func (d *decoder) checkSecret(key, file string) string {
	secret, f := readSecret(key, file)
	d.fileFaults(f)
	return secret
}

func (d *decoder) fileFaults(faults ...*fileFault) {
	for _, f := range faults {
		if f != nil {
			d.fault(f.key, d.places[f.key], "%v", f)
		}
	}
}

// Print writes the effective configuration, defaults included, as YAML that loads again. Secrets are masked.
func (c *Config) Print(w io.Writer) error {
	top := printAll(settings, c)
	var learners mapping
	for i := range c.Learners {
		learners.add(c.Learners[i].Name, c.Learners[i].print())
	}
	top.add("learners", learners.node(false))
	if len(c.Experiments) > 0 {
		var all mapping
		for i := range c.Experiments {
			all.add(c.Experiments[i].Name, c.Experiments[i].print())
		}
		top.add("experiments", all.node(false))
	}
	out, err := yaml.Dump(top.node(false))
	if err != nil {
		return fmt.Errorf("printing the configuration: %w", err)
	}
	_, err = w.Write(out)
	return err
}

// WriteSchema writes the JSON Schema of configurations, for editors: the type, range, words, default and description of each key, and the
// keys that every file needs. It accepts all that Load accepts. The rules on several keys, and those on the text of a name or an address,
// are in Go only.
func WriteSchema(w io.Writer) error {
	root := object(settings)
	properties := root["properties"].(schema)
	properties["learners"] = schema{
		"type": "object", "minProperties": 1, "description": "each learner's settings, by its name", "additionalProperties": object(learnerSettings),
	}
	properties["experiments"] = schema{
		"type": []string{"object", "null"}, "description": "each experiment's settings, by the name of the learner whose impressions it is for",
		"additionalProperties": object(experimentSettings),
	}
	root["$schema"], root["title"] = "http://json-schema.org/draft-07/schema#", "ranker-worker's configuration"
	root["type"], root["required"] = "object", []string{"kafka", "redis", "learners"}
	root["definitions"] = schema{"reference": reference}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	if err := enc.Encode(root); err != nil {
		return fmt.Errorf("writing the schema: %w", err)
	}
	return nil
}

func (d *decoder) experiments(top *section, c *Config) {
	if !top.has("experiments") {
		top.ask("experiments")
		return
	}
	s := top.section("experiments")
	s.known = s.order // names of learners, checked elsewhere
	in := map[string]string{}
	for _, name := range s.order {
		f := s.fields[name]
		path := s.join(name)
		d.places[path] = f.at
		one := d.open(path, f.at, f.value)
		x := standardOf(experimentSettings)
		x.Name = name
		readAll(one, experimentSettings, &x)
		one.close()
		if c.Learner(name) == nil && len(c.Learners) > 0 {
			d.fault(path, f.at, "there is no learner %s: an experiment has the name of the learner whose impressions it is for", quote(name))
		}
		d.checkArms(one, &x, c, in)
		d.checkShadow(one, &x, c, in)
		d.checkWorth(one, &x, c)
		d.checkGuard(one, &x, c)
		if one.has("period") && x.By != ByUser && one.ok("by") {
			one.warn("period", "has no effect by impression: each is given an arm of its own")
		}
		c.Experiments = append(c.Experiments, x)
	}
}

func (d *decoder) learners(top *section, c *Config) {
	s := top.section("learners")
	s.known = s.order // any name is allowed
	seen := false
	for _, name := range s.order {
		f := s.fields[name]
		seen = true
		path := s.join(name)
		d.places[path] = f.at
		if err := checkLearnerName(name); err != nil {
			d.fault("learners", f.at, "%v", err)
		}
		one := d.open(path, f.at, f.value)
		c.Learners = append(c.Learners, d.learner(one, name, c))
	}
	if !seen {
		top.missing("learners", "at least one learner is needed, such as learners: {feed: {}}")
		return
	}
	d.defaultLearner(c)
}

// defaultLearner selects the learner of records that name none.
func (d *decoder) defaultLearner(c *Config) {
	first, said := "", false
	for i := range c.Learners {
		l := &c.Learners[i]
		key := "learners." + l.Name + ".default"
		_, set := d.places[key]
		said = said || set
		switch {
		case len(c.Learners) == 1:
			if set && !l.Default && !d.bad[key] {
				d.warn(key, d.places[key], "has no effect: an only learner takes the records that name none")
			}
			l.Default = true
		case l.Default && first != "":
			d.fault(key, d.places[key], "learner %s is the default already; there can be one", first)
		case l.Default:
			first = l.Name
		}
	}
	if len(c.Learners) > 1 && !said {
		d.warn("learners", d.places["learners"], "none of %d is the default: an impression that names no learner becomes a dead letter (unknown_learner); "+
			"give one `default: true`, or `default: false` where producers name one in each", len(c.Learners))
	}
}

func (d *decoder) learner(s *section, name string, c *Config) Learner {
	l := standardOf(learnerSettings)
	l.Name = name
	readAll(s, learnerSettings, &l)
	s.close()
	l.fill(func(key string) bool { return s.has(key) && s.ok(key) })
	checkSigma(s, &l)
	checkPartners(s, &l)
	checkTimes(s, &l, c.Kafka.Topics)
	checkRetention(s, &l)
	checkDefault(s, &l, c.Kafka.Topics)
	checkSilence(s, &l, c.Kafka.Topics)
	checkDrift(s, &l)
	checkRobust(s, &l)
	checkContext(s, &l)
	checkCaps(s, &l)
	checkExploration(s, &l, c.Limits.MaxCandidates)
	warnLearner(s, &l, c.Kafka.Topics)
	warnDoubtful(s, &l, c.Kafka.Topics)
	return l
}
