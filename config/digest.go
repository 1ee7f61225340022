package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

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
