package config

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Changed is a setting that a file leaves to its default, which was another one in earlier versions.
type Changed struct {
	Key string // full path, such as learners.feed.on_expiry
	Is  string // what it is now, as it would be written
	Was string // what would be written to have what was
}

// String says it in a line.
func (c Changed) String() string { return fmt.Sprintf("%s is %s, and was %s", c.Key, c.Is, c.Was) }

// Changed gives all settings that the file leaves open and that are now something else than in earlier versions. A file that writes
// them has none, be it what was or what is.
func (c *Config) Changed() []Changed {
	all := changedOf("", settings, c, c.isSet)
	for i := range c.Learners {
		l := &c.Learners[i]
		all = append(all, changedOf("learners."+l.Name+".", learnerSettings, l, c.isSet)...)
	}
	return all
}

// isSet tells whether the file has a key.
func (c *Config) isSet(key string) bool {
	_, set := c.source.places[key]
	return set
}

func changedOf[O any](prefix string, all []setting[O], o *O, isSet func(key string) bool) (changed []Changed) {
	for _, t := range all {
		key := prefix + t.key
		if t.was == nil {
			changed = append(changed, changedOf(key+".", t.parts, o, isSet)...)
			continue
		}
		was, n := t.was(o), t.print(o)
		if isSet(key) || was == "" || n == nil {
			continue
		}
		if is := inline(n); is != was {
			changed = append(changed, Changed{Key: key, Is: is, Was: was})
		}
	}
	return changed
}

// inline is a value as it stands behind its key.
func inline(n *yaml.Node) string {
	text, err := yaml.Dump(n)
	if err != nil {
		panic(fmt.Sprintf("config: a value that Print shows cannot be shown: %v", err))
	}
	return strings.TrimSpace(string(text))
}
