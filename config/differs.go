package config

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Differing returns the settings in which two configurations differ, in the order of the file, with defaults filled in. A learner of only
// one of them is one difference. Secrets are compared, and not shown.
func (c *Config) Differing(other *Config) (keys []string) {
	keys, added := c.Added(other)
	for _, name := range added {
		keys = append(keys, "learners."+name)
	}
	return keys
}

// Added returns the learners that only other has, and the other differences.
func (c *Config) Added(other *Config) (keys, learners []string) {
	keys = differing("", settings, c, other)
	if c.Kafka.SASL.Password != other.Kafka.SASL.Password {
		keys = append(keys, "kafka.sasl.password")
	}
	if c.Kafka.SchemaRegistry.Password != other.Kafka.SchemaRegistry.Password {
		keys = append(keys, "kafka.schema_registry.password")
	}
	if c.Redis.Password != other.Redis.Password {
		keys = append(keys, "redis.password")
	}
	named := func(name string) func(Learner) bool { return func(l Learner) bool { return l.Name == name } }
	for i := range c.Learners {
		l := &c.Learners[i]
		if k := slices.IndexFunc(other.Learners, named(l.Name)); k < 0 {
			keys = append(keys, "learners."+l.Name)
		} else {
			keys = append(keys, differing("learners."+l.Name+".", learnerSettings, l, &other.Learners[k])...)
		}
	}
	keys = append(keys, differingExperiments(c.Experiments, other.Experiments)...)
	for _, l := range other.Learners {
		if !slices.ContainsFunc(c.Learners, named(l.Name)) {
			learners = append(learners, l.Name)
		}
	}
	return keys, learners
}

// differingExperiments returns the names of experiments that differ.
func differingExperiments(ours, theirs []Experiment) (keys []string) {
	named := func(name string) func(Experiment) bool { return func(x Experiment) bool { return x.Name == name } }
	for i := range ours {
		x := &ours[i]
		if k := slices.IndexFunc(theirs, named(x.Name)); k < 0 {
			keys = append(keys, "experiments."+x.Name)
		} else {
			keys = append(keys, differing("experiments."+x.Name+".", experimentSettings, x, &theirs[k])...)
		}
	}
	for i := range theirs {
		if !slices.ContainsFunc(ours, named(theirs[i].Name)) {
			keys = append(keys, "experiments."+theirs[i].Name)
		}
	}
	return keys
}

// Authorities returns the present certificates in the ca_file of Kafka and of Redis. Connections trust those read when the worker, or this
// configuration, began.
func (c *Config) Authorities() (string, error) {
	var all strings.Builder
	for _, f := range []struct{ key, file string }{{"kafka.tls.ca_file", c.Kafka.TLS.CAFile}, {"redis.tls.ca_file", c.Redis.TLS.CAFile}} {
		if f.file == "" {
			continue
		}
		data, err := readFile(f.file, mostPEMBytes)
		if err != nil {
			return "", fmt.Errorf("%s: %w", c.Where(f.key), err)
		}
		fmt.Fprintf(&all, "%s %d\n%s", f.key, len(data), data)
	}
	return all.String(), nil
}

func differing[O any](prefix string, all []setting[O], a, b *O) (keys []string) {
	for _, t := range all {
		if t.print == nil {
			keys = append(keys, differing(prefix+t.key+".", t.parts, a, b)...)
			continue
		}
		x, y := t.print(a), t.print(b)
		if (x == nil) != (y == nil) || x != nil && inline(x) != inline(y) {
			keys = append(keys, prefix+t.key)
		}
	}
	return keys
}

// inline returns a value as it stands behind its key.
func inline(n *yaml.Node) string {
	text, err := yaml.Dump(n)
	if err != nil {
		panic(fmt.Sprintf("config: a value that Print shows cannot be shown: %v", err))
	}
	return strings.TrimSpace(string(text))
}
