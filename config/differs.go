package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// passwords are those that stand in the file.
var passwords = []struct {
	key string
	of  func(*Config) Secret
}{
	{"kafka.sasl.password", func(c *Config) Secret { return c.Kafka.SASL.Password }},
	{"kafka.schema_registry.password", func(c *Config) Secret { return c.Kafka.SchemaRegistry.Password }},
	{"redis.password", func(c *Config) Secret { return c.Redis.Password }},
}

// IsPassword reports whether a key that Added returns is that of a password.
func IsPassword(key string) bool {
	for _, p := range passwords {
		if p.key == key {
			return true
		}
	}
	return false
}

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
	for _, p := range passwords {
		if p.of(c) != p.of(other) {
			keys = append(keys, p.key)
		}
	}
	more, learners := differingBy("learners.", learnerSettings, c.Learners, other.Learners, func(l *Learner) string { return l.Name })
	keys = append(keys, more...)
	more, added := differingBy("experiments.", experimentSettings, c.Experiments, other.Experiments, func(x *Experiment) string { return x.Name })
	keys = append(keys, more...)
	for _, name := range added {
		keys = append(keys, "experiments."+name)
	}
	return keys, learners
}

// differingBy compares lists by the names of their elements. It returns the differing keys, one for an element that theirs lack, and the
// names of the elements that only theirs have.
func differingBy[O any](prefix string, all []setting[O], ours, theirs []O, name func(*O) string) (keys, added []string) {
	for i := range ours {
		own := name(&ours[i])
		if other := find(theirs, func(o *O) bool { return name(o) == own }); other == nil {
			keys = append(keys, prefix+own)
		} else {
			keys = append(keys, differing(prefix+own+".", all, &ours[i], other)...)
		}
	}
	for i := range theirs {
		if other := name(&theirs[i]); find(ours, func(o *O) bool { return name(o) == other }) == nil {
			added = append(added, other)
		}
	}
	return keys, added
}

// Authorities returns the present certificates in each ca_file. Connections trust those read when the worker, or this configuration, began.
func (c *Config) Authorities() (string, error) {
	var all strings.Builder
	for _, f := range []struct{ key, file string }{{"kafka.tls.ca_file", c.Kafka.TLS.CAFile}, {"redis.tls.ca_file", c.Redis.TLS.CAFile},
		{"kafka.schema_registry.tls.ca_file", c.Kafka.SchemaRegistry.TLS.CAFile}} {
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
		if !sameNode(t.print(a), t.print(b)) {
			keys = append(keys, prefix+t.key)
		}
	}
	return keys
}

// digestBytes suffice to distinguish a group's configurations.
const digestBytes = 6

// Digest identifies all settings of all learners and experiments, defaults included: workers with equal ones decide and learn alike. It
// does not depend on the order of learners and keys in the file, but may depend on the program's version. It is hexadecimal, and holds no
// secret: learners have none.
func (c *Config) Digest() (string, error) {
	var all mapping
	for _, l := range slices.SortedFunc(slices.Values(c.Learners), func(a, b Learner) int { return strings.Compare(a.Name, b.Name) }) {
		all.add(l.Name, l.print())
	}
	for _, x := range slices.SortedFunc(slices.Values(c.Experiments), func(a, b Experiment) int { return strings.Compare(a.Name, b.Name) }) {
		all.add("experiments."+x.Name, x.print())
	}
	text, err := yaml.Dump(all.node(false))
	if err != nil {
		return "", fmt.Errorf("putting the learners into words: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:digestBytes]), nil
}
