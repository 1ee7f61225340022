package config

import "slices"

// Differing names the settings in which two configurations differ, in the order of the file, with defaults filled in. A learner that
// only one of them has is named as a whole. Secrets are compared, and not shown.
func (c *Config) Differing(other *Config) (keys []string) {
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
	for _, l := range other.Learners {
		if !slices.ContainsFunc(c.Learners, named(l.Name)) {
			keys = append(keys, "learners."+l.Name)
		}
	}
	return keys
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
