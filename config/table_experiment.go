package config

import (
	"time"

	"go.yaml.in/yaml/v4"
)

var experimentSettings = []setting[Experiment]{
	value("arms", func(x *Experiment) *[]Arm { return &x.Arms }, sharesKind, nil,
		"learners that rank, and their shares of units").orElse(noArms),
	value("control", func(x *Experiment) *string { return &x.Control }, anything("learner", "one of `arms`", isFilled), "",
		"the arm that others are compared with; also ranks impressions without a unit").orElse("is needed: the arm that others are compared with"),
	value("by", func(x *Experiment) *Unit { return &x.By }, words(ByImpression, ByUser), ByImpression,
		"unit of assignment: each impression, or a group of users for a `period`. By user, impressions need `user`"),
	value("period", func(x *Experiment) *time.Duration { return &x.Period }, durationOr("never", Never, time.Hour, longest), 7*day,
		"by user: time after which groups are assigned again; `never` is a holdout, whose lift has no bounds").unless(func(x *Experiment) bool {
		return x.By != ByUser
	}),
	value("run", func(x *Experiment) *int { return &x.Run }, wholeNumber(1, 1_000_000_000), 1,
		"raise it with every change of the experiment: units are assigned again, counts begin at zero, arms stopped by a guard return"),
	value("unpaid", func(x *Experiment) **float64 { return &x.Unpaid }, maybe("within the arms' `payoff_range`", schema{}), nil,
		"payoff of a selection never paid in the comparison, if the arms have `on_expiry: drop`"),
	value("learning", func(x *Experiment) *Learning { return &x.Learning }, words(Separate, Shared), Separate,
		"data that arms learn from: each from its own rankings (`separate`); or all from all (`shared`): policies that decide by "+
			"the control's statistics. Those that rank, with `direct`, the same `silence` and `drift`, and `utilities: given`"),
	value("shadow", func(x *Experiment) *[]Arm { return &x.Shadow }, shadowKind, nil,
		"learners that decide like arms under `shared`, each on its share of impressions, without being shown: the ranking records their "+
			"order. Needs `learning: shared`"),
	sectionOf("guard", func(x *Experiment) *Guard { return &x.Guard }, []setting[Guard]{
		value("margin", func(g *Guard) *float64 { return &g.Margin }, numberIn(0, 1), 0.2,
			"an arm is stopped once it certainly loses more than this share of the control's mean payoff").unless(func(g *Guard) bool { return g.Fallback == "" }),
		value("fallback", func(g *Guard) *string { return &g.Fallback }, anything("learner", "one of `arms`", isFilled), "",
			"the arm that then ranks instead; without it there is no guard").unless(func(g *Guard) bool { return g.Fallback == "" }),
	}),
}

// sharesKind is a mapping of learners to shares that add up to 1, shadowKind one to independent shares.
var (
	sharesKind = mappingOfShares("2 to 16 learners, each with a number of at least 0.000001; they add up to 1", 2)
	shadowKind = mappingOfShares("learners, each with a number between 0.000001 and 1", 0)
)

func mappingOfShares(span string, least int) kind[[]Arm] {
	return kind[[]Arm]{name: "mapping of shares", span: span,
		editor: schema{"type": "object", "minProperties": least, "maxProperties": mostArms,
			"additionalProperties": orReference(schema{"type": "number", "minimum": leastShare, "maximum": 1}, numeric)},
		read: readShares, print: printShares}
}

func readShares(s *section, key string, dst *[]Arm) {
	f, ok := s.ask(key)
	if !ok {
		return
	}
	one := s.d.open(s.join(key), f.at, f.value)
	one.known = one.order
	var all []Arm
	for _, name := range one.order {
		a := Arm{Learner: name}
		set(one, name, &a.Share, parseShare)
		s.d.bad[s.join(key)] = s.d.bad[s.join(key)] || !one.ok(name)
		all = append(all, a)
	}
	*dst = all
}

func printShares(all []Arm) *yaml.Node {
	if all == nil {
		return nil
	}
	var m mapping
	for _, a := range all {
		m.add(a.Learner, float(a.Share))
	}
	return m.node(true)
}

func (x *Experiment) print() *yaml.Node { return printAll(experimentSettings, x).node(false) }
