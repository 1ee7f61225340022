package event_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/ranker-worker/ranker-worker/stream/event"
)

// The oracle reads records slowly and obviously, by encoding/json, time.Parse, maps and regular expressions. It
// returns a record's contents or that it is faulty. It shares no code with the decoder.

var errFaulty = errors.New("faulty")

// lone finds a surrogate escape without its other half, in a text from which sound pairs and escaped backslashes are gone.
var (
	pairs = regexp.MustCompile(`\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}`)
	lone  = regexp.MustCompile(`\\u[dD][89a-fA-F]`)
	hex16 = regexp.MustCompile(`^[0-9a-fA-F]{16}$`)
	// time.Parse takes more than RFC 3339 allows.
	rfc3339 = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)$`)
)

func oracleSound(b []byte) bool {
	if !utf8.Valid(b) || !json.Valid(b) || lone.Match(pairs.ReplaceAll(b, []byte("_"))) {
		return false
	}
	depth, d := 0, json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	for {
		token, err := d.Token()
		if err != nil {
			return depth == 0
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth > event.MaxDepth {
			return false
		}
	}
}

// oracleObject gives the named fields of an object that are not null.
func oracleObject(b []byte, names ...string) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errFaulty
	}
	fields, seen := map[string]json.RawMessage{}, map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, errFaulty
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return nil, errFaulty
		}
		for _, name := range names {
			if t.(string) != name {
				continue
			}
			if seen[name] {
				return nil, errFaulty
			}
			seen[name] = true
			if string(raw) != "null" {
				fields[name] = raw
			}
		}
	}
	return fields, nil
}

// A reader takes one field after the other and remembers that one was faulty.
type reader struct {
	fields map[string]json.RawMessage
	bad    bool
}

func (r *reader) text(name string, required bool) []byte {
	raw, ok := r.fields[name]
	if !ok {
		r.bad = r.bad || required
		return nil
	}
	var s string
	if raw[0] != '"' || json.Unmarshal(raw, &s) != nil || len(s) > event.MaxIDBytes || required && s == "" {
		r.bad = true
	}
	return []byte(s)
}

func (r *reader) float(name string) (x float64, ok bool) {
	raw, ok := r.fields[name]
	if !ok {
		return 0, false
	}
	x, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || math.IsInf(x, 0) {
		r.bad = true
	}
	return x, true
}

func (r *reader) time(name string) (t event.Millis, ok bool) {
	raw, ok := r.fields[name]
	if !ok {
		return 0, false
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		r.bad = true
		return 0, true
	}
	t, ok = oracleTime(s)
	r.bad = r.bad || !ok
	return t, true
}

func (r *reader) integer(name string, high int64) int64 {
	n, err := strconv.ParseInt(string(r.fields[name]), 10, 64)
	if err != nil || n < 0 || n > high {
		r.bad = true
	}
	return n
}

func oracleTime(s string) (event.Millis, bool) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil || !rfc3339.MatchString(s) {
		return 0, false
	}
	if y := t.UTC().Year(); y < 1 || y > 9999 {
		return 0, false
	}
	return t.UnixMilli(), true
}

func oracleImpression(l event.Limits, key, value []byte) (*event.Impression, error) {
	if len(value) > l.MaxRecordBytes || !oracleSound(value) {
		return nil, errFaulty
	}
	fields, err := oracleObject(value, "impression_id", "learner", "time", "candidates", "user", "exclude")
	if err != nil {
		return nil, err
	}
	r := reader{fields: fields}
	var i event.Impression
	i.ID, i.Learner = r.text("impression_id", true), r.text("learner", false)
	i.Time, i.HasTime = r.time("time")
	i.User = r.text("user", false)
	var list []json.RawMessage
	if json.Unmarshal(fields["candidates"], &list) != nil || len(list) == 0 || len(list) > l.MaxCandidates {
		return nil, errFaulty
	}
	excluded, pins := map[string]bool{}, map[int64]bool{}
	var exclude []json.RawMessage
	if raw := fields["exclude"]; raw != nil && json.Unmarshal(raw, &exclude) != nil {
		return nil, errFaulty
	}
	for _, raw := range exclude {
		one := reader{fields: map[string]json.RawMessage{"exclude": raw}}
		excluded[string(one.text("exclude", false))] = true
		r.bad = r.bad || one.bad
	}
	items, known := map[string]bool{}, []float64{}
	for _, raw := range list {
		cf, err := oracleObject(raw, "item", "utility", "pin")
		if err != nil {
			return nil, err
		}
		cr := reader{fields: cf}
		item := cr.text("item", true)
		pin := int64(0)
		if cf["pin"] != nil {
			pin = cr.integer("pin", math.MaxInt32)
			cr.bad = cr.bad || pin == 0
		}
		u, ok := cr.float("utility")
		if r.bad = r.bad || cr.bad || items[string(item)]; excluded[string(item)] {
			items[string(item)] = true
			continue
		}
		r.bad = r.bad || pin > 0 && pins[pin]
		pins[pin] = true
		if ok {
			known = append(known, u)
		} else {
			i.Filled = append(i.Filled, int32(len(i.Candidates)))
		}
		items[string(item)] = true
		i.Candidates = append(i.Candidates, event.Candidate{Item: item, Utility: u, Pin: int32(pin)})
	}
	if r.bad || len(i.Candidates) == 0 || !bytes.Equal(i.ID, key) {
		return nil, errFaulty
	}
	if i.HasUtilities = len(known) > 0; !i.HasUtilities {
		i.Filled = nil
	}
	for _, at := range i.Filled {
		i.Candidates[at].Utility = oracleMedian(known)
	}
	return &i, nil
}

// oracleMedian computes in numbers that hold any sum.
func oracleMedian(known []float64) float64 {
	slices.Sort(known)
	a, b := big.NewFloat(known[(len(known)-1)/2]), big.NewFloat(known[len(known)/2])
	half := new(big.Float).SetPrec(3000).Add(a, b)
	x, _ := half.Quo(half, big.NewFloat(2)).Float64()
	return x + 0 // -0 is 0
}

func oracleSelection(l event.Limits, key, value []byte) (*event.Selection, error) {
	if len(value) > l.MaxRecordBytes || !oracleSound(value) {
		return nil, errFaulty
	}
	fields, err := oracleObject(value, "impression_id", "item", "time", "utility", "shown")
	if err != nil {
		return nil, err
	}
	r := reader{fields: fields}
	var s event.Selection
	s.ID, s.Item = r.text("impression_id", true), r.text("item", true)
	s.Time, s.HasTime = r.time("time")
	s.Utility, s.HasUtility = r.float("utility")
	shown := string(r.text("shown", false))
	s.ByUtility = shown == "utility"
	if r.bad || shown != "" && !s.ByUtility || !bytes.Equal(s.ID, key) {
		return nil, errFaulty
	}
	return &s, nil
}

func oraclePayoff(l event.Limits, key, value []byte) (*event.Payoff, error) {
	if len(value) > l.MaxRecordBytes || !oracleSound(value) {
		return nil, errFaulty
	}
	fields, err := oracleObject(value, "impression_id", "payoff", "time", "item", "event_id")
	if err != nil {
		return nil, err
	}
	r := reader{fields: fields}
	var p event.Payoff
	var ok bool
	p.ID = r.text("impression_id", true)
	p.Payoff, ok = r.float("payoff")
	p.Time, p.HasTime = r.time("time")
	p.Item, p.EventID = r.text("item", false), r.text("event_id", false)
	if r.bad || !ok || !bytes.Equal(p.ID, key) {
		return nil, errFaulty
	}
	return &p, nil
}

func oracleRanking(value []byte) (*event.Ranking, error) {
	if !oracleSound(value) {
		return nil, errFaulty
	}
	fields, err := oracleObject(value, "impression_id", "learner", "time", "items", "decision")
	if err != nil {
		return nil, err
	}
	df, err := oracleObject(fields["decision"], "group", "policy", "delay", "partition", "offset", "layout",
		"propensities", "instance", "explored", "seed", "selection_deadline", "payoff_deadline",
		"ranks", "undecided", "began", "expected", "experiment", "run", "arm", "arm_probability", "unit", "fallback", "verdict", "shadows", "decided", "covariate")
	if err != nil {
		return nil, err
	}
	r, d := reader{fields: fields}, reader{fields: df}
	for _, name := range []string{"group", "policy", "delay"} {
		d.bad = d.bad || df[name] == nil
	}
	a := event.Ranking{ID: r.text("impression_id", true), Learner: r.text("learner", false), Decision: event.Decision{
		Group: string(d.text("group", false)), Policy: string(d.text("policy", false)), Delay: string(d.text("delay", false)),
		Partition: int32(d.integer("partition", math.MaxInt32)), Offset: d.integer("offset", math.MaxInt64),
		Layout: int(d.integer("layout", math.MaxInt32)), Instance: -1,
	}}
	var ok [3]bool
	a.Time, ok[0] = r.time("time")
	a.Decision.SelectionDeadline, a.Decision.HasSelection = d.time("selection_deadline")
	a.Decision.PayoffDeadline, ok[1] = d.time("payoff_deadline")
	a.Decision.Began, ok[2] = d.time("began")
	seed := string(d.text("seed", true))
	if !hex16.MatchString(seed) {
		return nil, errFaulty
	}
	a.Decision.Seed, _ = strconv.ParseUint(seed, 16, 64)
	if df["instance"] != nil {
		a.Decision.Instance = int32(d.integer("instance", math.MaxInt32))
	}
	if df["explored"] != nil && json.Unmarshal(df["explored"], &a.Decision.Explored) != nil {
		return nil, errFaulty
	}
	if !oracleLists(&a, fields["items"], df["propensities"]) || !oracleExpected(&a, df["expected"]) || !oracleRanks(&a, df["ranks"], df["undecided"]) ||
		!oracleAssignment(&a.Decision, &d) || !oracleShadows(&a, df["shadows"]) || !oracleDecided(&a, df["decided"]) || r.bad || d.bad || ok != [3]bool{true, true, true} {
		return nil, errFaulty
	}
	return &a, nil
}

// oracleAssignment reads a decision's experiment.
func oracleAssignment(dst *event.Decision, d *reader) bool {
	a := &dst.Assignment
	if a.Experiment = string(d.text("experiment", false)); a.Experiment == "" {
		return true
	}
	a.Run, a.Arm, a.Unit = int32(d.integer("run", math.MaxInt32)), string(d.text("arm", true)), d.text("unit", false)
	a.Probability, _ = d.float("arm_probability")
	if f := d.fields["fallback"]; f != nil && json.Unmarshal(f, &a.Fallback) != nil {
		return false
	}
	if d.fields["covariate"] != nil {
		x, _ := d.float("covariate")
		n := math.Round(x * 1e6)
		if x < 0 || x > 1 || n/1e6 != x {
			return false
		}
		a.Covariate = int32(n)
	}
	if d.fields["verdict"] != nil {
		fields, err := oracleObject(d.fields["verdict"], "run", "arm", "n", "lower", "upper")
		if err != nil {
			return false
		}
		r, v := reader{fields: fields}, &dst.Verdict
		var ok [2]bool
		v.Run, v.Arm, v.Units = int32(r.integer("run", math.MaxInt32)), string(r.text("arm", true)), r.integer("n", math.MaxInt64)
		v.Lower, ok[0] = r.float("lower")
		v.Upper, ok[1] = r.float("upper")
		if r.bad || v.Run == 0 || ok != [2]bool{true, true} {
			return false
		}
	}
	return a.Run > 0 && a.Probability > 0 && a.Probability <= 1
}

// oracleShadows reads orders by name, each a permutation of the items' positions.
func oracleShadows(a *event.Ranking, raw json.RawMessage) bool {
	if raw == nil {
		return true
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return false
	}
	seen := map[string]bool{}
	for d.More() {
		name, _ := d.Token()
		var list []json.RawMessage
		if d.Decode(&list) != nil || list == nil || seen[name.(string)] {
			return false
		}
		seen[name.(string)] = true
		s, have := event.Shadow{Name: name.(string)}, make([]bool, len(a.Items))
		for _, one := range list {
			r := reader{fields: map[string]json.RawMessage{"at": one}}
			at := r.integer("at", int64(len(a.Items))-1)
			if r.bad || have[at] {
				return false
			}
			have[at] = true
			s.Order = append(s.Order, int32(at))
		}
		if len(list) != len(a.Items) {
			return false
		}
		a.Decision.Shadows = append(a.Decision.Shadows, s)
	}
	return true
}

// oracleDecided reads the policy's order, a permutation of the items' positions.
func oracleDecided(a *event.Ranking, raw json.RawMessage) bool {
	if raw == nil {
		return true
	}
	b := event.Ranking{Items: a.Items}
	if !oracleShadows(&b, slices.Concat([]byte(`{"x":`), raw, []byte("}"))) && string(bytes.Join(bytes.Fields(raw), nil)) != "[]" {
		return false
	}
	for _, s := range b.Decision.Shadows {
		a.Decision.Decided = s.Order
	}
	return true
}

// oracleRanks reads ranks, a permutation of 0..n-1 where there are any, and the undecided ones of them.
func oracleRanks(a *event.Ranking, ranks, undecided json.RawMessage) bool {
	read := func(raw json.RawMessage) (all []int32, ok bool) {
		if raw == nil {
			return nil, true
		}
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil {
			return nil, false
		}
		for _, one := range list {
			r := reader{fields: map[string]json.RawMessage{"rank": one}}
			all = append(all, int32(r.integer("rank", math.MaxInt32)))
			if r.bad {
				return nil, false
			}
		}
		return all, true
	}
	var okRanks, okUndecided bool
	a.Decision.Ranks, okRanks = read(ranks)
	a.Decision.Undecided, okUndecided = read(undecided)
	if !okRanks || !okUndecided {
		return false
	}
	if len(a.Decision.Ranks)+len(a.Decision.Undecided) == 0 {
		return true
	}
	sorted := slices.Sorted(slices.Values(a.Decision.Ranks))
	if len(sorted) != len(a.Items) {
		return false
	}
	for k, r := range sorted {
		if int(r) != k {
			return false
		}
	}
	above := int32(0)
	if len(a.Decision.Undecided) == 1 && len(a.Items) > 1 {
		above = -1
	}
	for _, r := range a.Decision.Undecided {
		if r <= above || int(r) >= len(a.Items) {
			return false
		}
		above = r
	}
	return true
}

// oracleExpected reads each item's expected payoff, a decimal of six places.
func oracleExpected(a *event.Ranking, expected json.RawMessage) bool {
	if expected == nil {
		return true
	}
	var list []json.RawMessage
	if json.Unmarshal(expected, &list) != nil {
		return false
	}
	for _, raw := range list {
		r := reader{fields: map[string]json.RawMessage{"x": raw}}
		x, _ := r.float("x")
		again, err := strconv.ParseFloat(strconv.FormatFloat(x, 'f', 6, 64), 64)
		if r.bad || err != nil || again != x || math.Abs(x) > event.MaxExpected {
			return false
		}
		a.Decision.Expected = append(a.Decision.Expected, x+0) // -0 is 0
	}
	return len(list) == 0 || len(list) == len(a.Items)
}

// oracleLists reads a ranking's items and propensities.
func oracleLists(a *event.Ranking, items, propensities json.RawMessage) bool {
	var list []json.RawMessage
	if json.Unmarshal(items, &list) != nil || len(list) == 0 {
		return false
	}
	seen := map[string]bool{}
	for _, raw := range list {
		r := reader{fields: map[string]json.RawMessage{"item": raw}}
		item := r.text("item", true)
		if r.bad || seen[string(item)] {
			return false
		}
		seen[string(item)] = true
		a.Items = append(a.Items, item)
	}
	if propensities == nil {
		return true
	}
	var floats []json.RawMessage
	if json.Unmarshal(propensities, &floats) != nil {
		return false
	}
	for _, raw := range floats {
		r := reader{fields: map[string]json.RawMessage{"p": raw}}
		p, _ := r.float("p")
		if r.bad {
			return false
		}
		a.Decision.Propensities = append(a.Decision.Propensities, p)
	}
	return len(floats) == 0 || len(floats) == len(list)
}
