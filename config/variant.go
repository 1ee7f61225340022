package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Setting is a learner's key, and a value as in a file.
type Setting [2]string

type SettingError struct {
	Key string
	Err error
}

func (e *SettingError) Error() string { return e.Key + ": " + e.Err.Error() }

func (e *SettingError) Unwrap() error { return e.Err }

// ReadLearner reads a learner's settings by a file's rules; hasSelections: there is a selections topic. It ignores empty settings, and of
// two with one key uses the last. It returns the idle keys, which have no effect. Its error is a *SettingError.
func ReadLearner(name string, hasSelections bool, settings []Setting) (l Learner, idle []string, err error) {
	var fields mapping
	for i, s := range settings {
		later := slices.ContainsFunc(settings[i+1:], func(o Setting) bool { return o[0] == s[0] && o[1] != "" })
		if s[1] == "" || later {
			continue
		}
		var value yaml.Node
		if err := yaml.Unmarshal([]byte(s[1]), &value); err != nil || len(value.Content) != 1 {
			return l, nil, &SettingError{s[0], fmt.Errorf("%q cannot be read", s[1])}
		}
		fields.add(s[0], value.Content[0])
	}
	file, err := learnerFile(name, hasSelections, fields)
	if err != nil {
		return l, nil, err
	}
	cfg, warned, err := Load("", file, func(string) (string, bool) { return "", false })
	prefix := "learners." + name + "."
	var faults Faults
	if errors.As(err, &faults) {
		return l, nil, &SettingError{strings.TrimPrefix(faults[0].Key, prefix), errors.New(faults[0].Message)}
	} else if err != nil {
		return l, nil, fmt.Errorf("reading settings as a configuration: %w", err)
	}
	for _, w := range warned {
		if key, ours := strings.CutPrefix(w.Key, prefix); ours && strings.HasPrefix(w.Message, "has no effect") {
			idle = append(idle, key)
		}
	}
	return cfg.Learners[0], idle, nil
}

// learnerFile returns a file with one learner.
func learnerFile(name string, hasSelections bool, fields mapping) ([]byte, error) {
	topics := "{}"
	if !hasSelections {
		topics = "{selections: ''}"
	}
	var top, learners mapping
	learners.add(name, fields.node(false))
	top.add("learners", learners.node(false))
	out, err := yaml.Dump(top.node(false))
	if err != nil {
		return nil, fmt.Errorf("writing settings as a configuration: %w", err)
	}
	return append(fmt.Appendf(nil, "kafka: {brokers: 'settings:1', group: settings, topics: %s}\nredis: {url: 'redis://settings'}\n", topics), out...), nil
}

// fed are the keys of settings that determine a learner's input, for any policy.
var fed = []string{"windows", "payoff_range", "out_of_range", "payoff_horizon", "selection_timeout", "on_expiry", "aggregate", "seed"}

// Variant returns a learner with l's input and the given settings. It has utilities: given unless they say otherwise, and reads l's
// contexts if it can. Its error is a *SettingError.
func (l *Learner) Variant(name string, hasSelections bool, settings []Setting) (Learner, error) {
	mine := func(s Setting) bool { return s[0] == "context" }
	if !l.Context.On() || slices.ContainsFunc(settings, mine) {
		return l.variant(name, hasSelections, fed, settings)
	}
	var refused *SettingError
	out, err := l.variant(name, hasSelections, append(slices.Clone(fed), "context"), settings)
	if errors.As(err, &refused) && refused.Key == "context" {
		return l.variant(name, hasSelections, fed, settings)
	}
	return out, err
}

// variant copies l's settings of some keys.
func (l *Learner) variant(name string, hasSelections bool, keys []string, settings []Setting) (Learner, error) {
	all := []Setting{}
	for i := range learnerSettings {
		t := &learnerSettings[i]
		if t.print == nil || !slices.Contains(keys, t.key) {
			continue
		}
		node := t.print(l)
		if node == nil {
			continue
		}
		value, err := yaml.Marshal(node)
		if err != nil {
			return Learner{}, fmt.Errorf("writing setting %s: %w", t.key, err)
		}
		all = append(all, Setting{t.key, string(value)})
	}
	out, _, err := ReadLearner(name, hasSelections, append(all, settings...))
	return out, err
}
