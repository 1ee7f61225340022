package config

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // time zones do not depend on the system

	"go.yaml.in/yaml/v4"

	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/features"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

const (
	ByHour    Turn = "hour"
	ByWeekday Turn = "weekday"
)

const (
	LinearScale Scale = "linear" // evenly
	LogScale    Scale = "log"    // evenly by features.SignedLog
)

func (f *Feature) declare() features.Feature {
	return features.Feature{Name: f.Name, Low: f.Range.Min, High: f.Range.Max, Log: f.Scale == LogScale}
}

const (
	RefuseMissing Missing = "refuse" // it is a dead letter
	MissingIsZero Missing = "zero"   // the feature counts as the middle of its range
)

func (c *Context) On() bool {
	return len(c.User)+len(c.Item)+len(c.Segments)+len(c.Clock) > 0 || c.Categories || c.Age
}

func (c *Context) clock() features.Clock {
	zone, err := parseZone(c.TimeZone)
	if err != nil { // a fault, or empty
		zone = time.UTC
	}
	return features.Clock{Hour: slices.Contains(c.Clock, ByHour), Weekday: slices.Contains(c.Clock, ByWeekday), Zone: zone}
}

func (l *Learner) Features() features.Declaration {
	d := features.Declaration{Cross: l.Context.Cross, Segments: l.Context.Segments, Categories: l.Context.Categories,
		Clock: l.Context.clock(), Age: l.Context.Age}
	for _, f := range l.Context.User {
		d.User = append(d.User, f.declare())
	}
	for _, f := range l.Context.Item {
		if f.Name == features.Predicted {
			f.Range = l.PayoffRange
		}
		d.Item = append(d.Item, f.declare())
	}
	return d
}

// LooksAtContexts returns whether a learner uses context fields of impressions: features, segments or categories.
func (c *Config) LooksAtContexts() bool {
	return slices.ContainsFunc(c.Learners, func(l Learner) bool { return l.Context.On() || len(l.Caps) > 0 })
}

// contextFingerprint returns the declarations that differ from the defaults, since they determine the meaning of learned values; empty
// without declarations.
func (l *Learner) contextFingerprint() string {
	if !l.Context.On() {
		return ""
	}
	c, standard, b := l.Context, standardOf(contextSettings), strings.Builder{}
	c.Missing = standard.Missing                    // it only chooses the impressions that are learned from
	c.Clock = slices.Sorted(slices.Values(c.Clock)) // their order has no meaning
	if len(c.Clock) == 0 || c.TimeZone == "UTC" {
		c.TimeZone = standard.TimeZone
	}
	for _, t := range contextSettings {
		if n := t.print(&c); !sameNode(n, t.print(&standard)) {
			fmt.Fprintf(&b, " %s=%s", t.key, inline(n))
		}
	}
	return b.String()
}

var contextKind = kind[Context]{name: "mapping", span: "the next nine keys", parts: contextSettings, editor: object(contextSettings),
	read: func(s *section, key string, dst *Context) {
		f, ok := s.ask(key)
		if !ok {
			return
		}
		one := s.d.open(s.join(key), f.at, f.value)
		readAll(one, contextSettings, dst)
		one.close()
	},
	print: func(c Context) *yaml.Node {
		if !c.On() {
			return nil
		}
		return printAll(contextSettings, &c).node(false)
	}}

var contextSettings = []setting[Context]{
	value("user", func(c *Context) *[]Feature { return &c.User }, featuresKind, nil,
		"numbers of the user, in the order of impressions' `features`. Alone they rank nothing; see `cross`"),
	value("item", func(c *Context) *[]Feature { return &c.Item }, featuresKind, nil,
		"numbers of a candidate, in the order of its `features`; and, not in that list, `utility`, its utility, and `predicted`, "+
			"another model's expected payoff within `payoff_range`"),
	value("cross", func(c *Context) *[][2]string { return &c.Cross }, crossKind, nil,
		"pairs of features, whose products are features too"),
	value("missing", func(c *Context) *Missing { return &c.Missing }, words(RefuseMissing, MissingIsZero), RefuseMissing,
		"an impression without a declared number is a dead letter (`refuse`), or the number counts as the middle of its range (`zero`)"),
	value("segments", func(c *Context) *[]string { return &c.Segments }, segmentsKind, nil,
		"groups of users for whom items may pay differently, by impressions' `segment`. All other users are one more group"),
	value("categories", func(c *Context) *bool { return &c.Categories }, yesOrNo, false,
		"items of one `category` of candidates may pay alike"),
	value("clock", func(c *Context) *[]Turn { return &c.Clock }, clockKind, nil,
		"items may pay differently by the hour and the weekday of the impression's event time. The learner estimates whether they do, "+
			"and which hours and days are alike"),
	value("time_zone", func(c *Context) *string { return &c.TimeZone }, zoneKind, "", "of the clock; without it UTC"),
	value("age", func(c *Context) *bool { return &c.Age }, yesOrNo, false,
		"payoffs may depend on the event time since an item's first impression, equally for all items"),
}

// isFeatureName matches a feature's name, since names are labels of metrics, and parts of fingerprints.
var isFeatureName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,63}$`)

// standardRange is the range of a feature declared by its name alone.
var standardRange = Range{Min: -1, Max: 1}

var declaredSettings = []setting[Feature]{
	value("name", func(f *Feature) *string { return &f.Name }, anything("name", "", func(string) error { return nil }), "", "").
		orElse("is needed"),
	value("range", func(f *Feature) *Range { return &f.Range }, rangeKind, standardRange, ""),
	value("scale", func(f *Feature) *Scale { return &f.Scale }, words(LinearScale, LogScale), LinearScale, "").
		unless(func(f *Feature) bool { return f.Scale == LinearScale }),
}

var featuresKind = listOf("list of features", "names, or mappings such as {name: price, range: [0, 500]}; by name alone the range is [-1, 1]. "+
	"`scale: log` is for numbers that are mostly small beside their range: steps are even by log(1+size)",
	func(s *section, path string, n *yaml.Node, _ []Feature) Feature { return s.feature(path, n) },
	func(f Feature) *yaml.Node {
		if f.Range == standardRange && f.Scale == LinearScale || f.Name == features.Predicted {
			return text(f.Name)
		}
		return printAll(declaredSettings, &f).node(true)
	}, schema{"anyOf": []schema{anyText, object(declaredSettings)}})

var crossKind = listOf("list of pairs", "such as [[tenure, price]]",
	func(s *section, path string, n *yaml.Node, _ [][2]string) (pair [2]string) {
		if n.Kind != yaml.SequenceNode || len(n.Content) != 2 {
			s.d.fault(s.join(path), at(n), "must be the names of two features, as in [tenure, price]")
			return pair
		}
		for k := range pair {
			e, _ := s.d.text(s.join(path), n.Content[k])
			pair[k] = e.text
		}
		return pair
	},
	func(pair [2]string) *yaml.Node { return list(pair[:]) },
	schema{"type": "array", "minItems": 2, "maxItems": 2, "items": anyText})

var segmentsKind = listOf("list of names", fmt.Sprintf("up to %d, such as [new, loyal]", features.MaxSegments),
	func(s *section, path string, n *yaml.Node, _ []string) string {
		e, ok := s.d.text(s.join(path), n)
		if ok && len(e.text) > event.MaxIDBytes {
			s.d.fault(s.join(path), at(n), "has %d bytes, at most %d are allowed", len(e.text), event.MaxIDBytes)
		}
		return e.text
	}, text, anyText)

var clockKind = listOf("list of words", "`hour`, `weekday`",
	func(s *section, path string, n *yaml.Node, before []Turn) Turn {
		e, ok := s.d.text(s.join(path), n)
		turn := Turn(e.text)
		switch {
		case !ok:
		case turn != ByHour && turn != ByWeekday:
			s.d.fault(s.join(path), at(n), "%s is unknown; there are %s and %s", quote(e.text), ByHour, ByWeekday)
		case slices.Contains(before, turn):
			s.d.fault(s.join(path), at(n), "%s stands there twice", turn)
		}
		return turn
	},
	func(turn Turn) *yaml.Node { return text(string(turn)) },
	orReference(schema{"enum": []Turn{ByHour, ByWeekday}}))

var zoneKind = unlessZero(anything("time zone", "such as `Europe/Berlin`", func(name string) error { _, err := parseZone(name); return err }))

// parseZone returns a time zone by its name in the IANA's database, which is part of the program.
func parseZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" {
		return nil, fmt.Errorf("%s is no time zone; write its name, such as Europe/Berlin", quote(name))
	}
	return zone, nil
}

func (s *section) feature(path string, n *yaml.Node) Feature {
	f := standardOf(declaredSettings)
	if n.Kind == yaml.MappingNode {
		one := s.d.open(s.join(path), at(n), n)
		readAll(one, declaredSettings, &f)
		one.close()
		if !one.has("name") {
			s.d.bad[s.join(path)] = true
			return f
		}
		if f.Name == features.Predicted && one.has("range") {
			one.fault("range", "that of predicted is payoff_range")
		}
		if f.Name == features.Predicted && f.Scale == LogScale {
			one.fault("scale", "predicted is a payoff, and its scale linear as theirs")
		}
	} else if e, ok := s.d.text(s.join(path), n); ok {
		f.Name = e.text
	}
	if !isFeatureName.MatchString(f.Name) && !s.d.bad[s.join(path)] {
		s.d.fault(s.join(path), at(n), "%s is no name of a feature: it takes up to 64 letters, digits, _, - and ., beginning with a letter", quote(f.Name))
	}
	return f
}

// checkContext refuses invalid declarations, and learners that cannot use one.
func checkContext(s *section, l *Learner) {
	one := s.d.sections[s.join("context")]
	if !s.has("context") || one == nil {
		return
	}
	if !l.Context.On() {
		if len(l.Context.Cross) == 0 && one.ok("user", "item", "segments", "categories", "clock", "age") && len(one.fields) > 0 {
			s.warn("context", "has no effect: it declares neither features of users or items, nor segments, categories or a clock")
			return
		}
	}
	sound := len(s.d.faults)
	checkDeclared(s, one, l)
	if why := l.notContextual(); why != "" && s.ok("policy", "delay", "utilities", "drift") {
		s.fault("context", "%s", why)
	}
	if sound == len(s.d.faults) && !one.faulty("") {
		warnContext(s, one, l)
	}
}

func (s *section) faulty(key string) bool {
	return slices.ContainsFunc(s.d.faults[s.first:], func(f Fault) bool { return strings.HasPrefix(f.Key, s.join(key)) })
}

func checkDeclared(s, one *section, l *Learner) {
	if !s.ok("context", "payoff_range") {
		return
	}
	d, said := l.Features(), one.faulty("user") || one.faulty("item")
	for _, f := range d.Check() {
		key := [...]string{features.Intercept: "", features.OfUser: "user", features.OfItem: "item", features.OfCross: "cross",
			features.InSegments: "segments"}[f.Group]
		element := key + "[" + strconv.Itoa(f.At) + "]"
		switch {
		case key == "":
			s.fault("context", "%s", f.What)
		case said && f.Group == features.OfCross || !one.ok(element) || one.faulty(element):
		default:
			s.d.fault(one.join(element), s.d.places[one.join(element)], "%s", f.What)
		}
	}
}

// notContextual returns the reason that a learner cannot use contexts, or "".
func (l *Learner) notContextual() string {
	k := l.Policy.Spec()
	switch named := func(f Feature) bool { return f.Name == features.Utility }; {
	case k == nil:
	case !k.Contextual:
		return fmt.Sprintf("policy %s ranks by statistics of items only; a context goes with %s", l.Policy, strings.Join(contextualPolicies(), ", "))
	case l.Delay != Direct:
		return fmt.Sprintf("delay %s feeds a payoff for another impression than its own, which was another user's; a context goes with delay: direct", l.Delay)
	case l.Drift > 0:
		return "a context forgets by itself where payoffs change; it needs drift: 0"
	case l.believes() && l.Prior.Kind == policy.FixedPrior:
		return "with a context, differences between items are estimated beside effects of features, which needs prior: empirical"
	case l.believes() && l.Prior.Kind == policy.NoPrior && (len(l.Context.Segments)+len(l.Context.Clock) > 0 || l.Context.Categories):
		return "with a context and prior: none features are all there is; segments, categories and a clock need prior: empirical"
	case l.believes() && l.Prior.Kind == policy.NoPrior && (l.Policy != "optimistic" || l.EstimateSigma):
		return "with a context and prior: none features are all there is, whose bound is known for policy: optimistic with a sigma that is a number"
	case l.Utilities != Given && slices.ContainsFunc(l.Context.Item, named):
		return fmt.Sprintf("utility is a feature, and with utilities: %s the utilities of impressions are not looked at", l.Utilities)
	}
	return ""
}

func contextualPolicies() (names []string) {
	for _, k := range policy.Specs {
		if k.Contextual {
			names = append(names, k.Name)
		}
	}
	return names
}

// wideRange is the width of a range from which most numbers may lie within few of its steps.
const wideRange = 1000

// warnContext warns of wide ranges, and of user features that do not affect rankings.
func warnContext(s, one *section, l *Learner) {
	for key, all := range map[string][]Feature{"user": l.Context.User, "item": l.Context.Item} {
		for i, f := range all {
			path := one.join(key + "[" + strconv.Itoa(i) + "]")
			if width := f.Range.Max - f.Range.Min; f.Name != features.Predicted && f.Scale != LogScale && width >= wideRange && !s.d.bad[path] {
				s.d.warn(path, s.d.places[path], "a step of %s is %.3g wide. If most numbers are small beside the range, scale: log separates them; "+
					"ranker_context_feature_sd shows how much of the range they use", f.Name, width/(2*features.One))
			}
		}
	}
	for i, f := range l.Context.User {
		crossed := slices.ContainsFunc(l.Context.Cross, func(pair [2]string) bool {
			other := pair[0]
			if other == f.Name {
				other = pair[1]
			}
			return slices.Contains(pair[:], f.Name) && slices.ContainsFunc(l.Context.Item, func(o Feature) bool { return o.Name == other })
		})
		path := one.join("user[" + strconv.Itoa(i) + "]")
		if !crossed && !s.d.bad[path] {
			s.d.warn(path, s.d.places[path], "%s ranks nothing: it is the same for all candidates, and only takes noise away. A product with a feature of "+
				"items, in cross, distinguishes candidates", f.Name)
		}
	}
}
