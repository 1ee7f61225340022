package partition

import (
	"fmt"
	"math"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/policy/admissible"
	"github.com/ranker-worker/ranker-worker/policy/preference"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// qpmdConfig has the real thing for a learner: elimination with QPM-D.
func qpmdConfig(t require.TestingT) Config {
	cfg := testConfig()
	l := &cfg.Learners[0]
	l.PolicyName, l.DelayName = "elimination", "qpmd"
	p, err := policy.NewElimination(policy.Confidence{Radius: policy.Subgaussian, Sigma: 0.5, Delta: 0.05})
	require.NoError(t, err)
	l.New = func() delay.Learner { return delay.NewQPMD(p) }
	return cfg
}

// boldConfig has the real thing for adversarial payoffs, with windows that are given.
func boldConfig(t *rapid.T) Config {
	cfg := testConfig()
	l := &cfg.Learners[0]
	windows, err := admissible.Geometric(0.7, 5)
	require.NoError(t, err)
	c := delay.BOLDConfig{MaxInstances: rapid.IntRange(0, 3).Draw(t, "instances"), Windows: delay.WindowsConfig{Given: windows},
		Index: rapid.SampledFrom([]delay.LossIndex{delay.LossByItem, delay.LossByRank}).Draw(t, "index")}
	if rapid.Bool().Draw(t, "osmd") {
		c.Base, err = policy.SpecOf("osmd").Oppose(&policy.Parameters{})
		l.PolicyName = "osmd"
	} else {
		c.Base, err = policy.NewFTRL(1, c.Index == delay.LossByItem)
		l.PolicyName = "ftrl"
	}
	require.NoError(t, err)
	l.DelayName = "bold"
	l.New = func() delay.Learner {
		b, err := delay.NewBOLD(c)
		require.NoError(t, err)
		return b
	}
	return cfg
}

// directConfig has the real thing for payoffs that are fed on arrival: greedy, or ε-greedy for windows that are given.
func directConfig(t *rapid.T) Config {
	cfg := testConfig()
	l := &cfg.Learners[0]
	l.PolicyName, l.DelayName = "greedy", "direct"
	l.New = func() delay.Learner { return delay.NewDirect(policy.NewGreedy(), delay.Silence{}) }
	if rapid.Bool().Draw(t, "explores") {
		windows, err := admissible.Geometric(0.7, 5)
		require.NoError(t, err)
		l.PolicyName = "egreedy"
		l.New = func() delay.Learner {
			d, err := delay.NewExploringDirect(policy.NewEpsilonGreedy(), delay.WindowsConfig{Given: windows}, delay.Silence{})
			require.NoError(t, err)
			return d
		}
	}
	return cfg
}

// findUtilities makes the learner one that finds the order of utilities itself.
func findUtilities(t *rapid.T, l *LearnerConfig) {
	l.FindsUtilities = true
	given, social := l.New, rapid.Bool().Draw(t, "social")
	l.New = func() delay.Learner {
		if !social {
			return delay.NewPreferring(given(), preference.NewSorted())
		}
		s, err := preference.NewSocial(preference.SocialConfig{Sigma: 0.1}) // so that it becomes certain soon
		require.NoError(t, err)
		return delay.NewPreferring(given(), s)
	}
}

// dump returns the store's contents, without the count of adopted decisions, which a crash may change.
func (s *memory) dump() string {
	var lines []string
	for hash, fields := range s.fields {
		for f, v := range fields {
			if f == accountPrefix+countNames[decisionsAdopted] || strings.HasPrefix(f, accountPrefix) && v == "0" {
				continue // a count that is 0 need not have been written
			}
			lines = append(lines, fmt.Sprintf("%s %s = %s", hash, f, v))
		}
	}
	for id, v := range s.entries() {
		lines = append(lines, fmt.Sprintf("entry %s = %x", id, v))
	}
	for b, ids := range s.due() {
		lines = append(lines, fmt.Sprintf("bucket %d = %v", b, ids))
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

// TestCrashChangesNothing: a machine crashes often, loads its last checkpoint, replays the records since and adopts logged decisions. It
// stores the same bytes, and ranks alike, as one that never crashed (invariants 4 and 6).
func TestCrashChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := qpmdConfig(t)
		handling := rapid.SampledFrom([]string{"qpmd", "direct", "bold"}).Draw(t, "delay")
		switch handling {
		case "direct":
			cfg = directConfig(t)
		case "bold":
			cfg = boldConfig(t)
		}
		if rapid.Bool().Draw(t, "finds utilities") {
			findUtilities(t, &cfg.Learners[0])
		}
		rules := rapid.Bool().Draw(t, "rules")
		if rules && handling != "bold" {
			cfg.Learners[0].Caps = []Cap{{"ads", 0, 1}, {"", 1, 3}}
		}
		crashing, steady := newWorld(t, cfg), newWorld(t, cfg)
		both := [2]*world{crashing, steady}
		for _, w := range both {
			w.now = day
		}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			switch rapid.IntRange(0, 11).Draw(t, "step") {
			default:
				topic, record := drawRecord(t, &cfg, steady.now)
				if imp, ok := record.(*event.Impression); ok && rules {
					drawRules(t, imp)
				}
				id, value := encodeRecord(record)
				for _, w := range both {
					require.NoError(t, w.read(topic, id, value, w.now))
				}
			case 0, 1:
				now := steady.now + drawTime(t, "passes", 0, 90_000)
				for _, w := range both {
					w.tick(now, [event.Inputs]bool{true, true, true})
				}
			case 2: // the walk changes buckets, hence the machines do it together
				limit := rapid.IntRange(1, 5).Draw(t, "chunk")
				for _, w := range both {
					w.walk(limit)
				}
			case 3:
				crashing.save()
			case 4, 5:
				crashing.crash()
			}
		}
		for _, w := range both {
			w.save()
		}
		require.Equal(t, steady.store.dump(), crashing.store.dump())
		require.Equal(t, steady.decided, crashing.decided)
		steady.store.checkInstances(t, rules)
		if handling != "bold" {
			steady.checkFlights()
		}
		steady.checkLearnerAccounts(t)
	})
}

// checkLearnerAccounts: a learner's ranked impressions are those that ended and those that are pending. The learners' outcomes add up to
// the partition's, but for records that met no impression.
func (w *world) checkLearnerAccounts(t require.TestingT) {
	var sum Account
	for _, l := range w.m.Learners() {
		i := l.Account.Impressions
		require.Equal(t, l.Account.Read[event.Impressions], i.Paid+i.Expired+i.Defaulted+i.Unselected+i.Pending, l.Name)
		sum = sum.Plus(l.Account)
	}
	all := w.m.Account()
	require.Equal(t, all.Impressions.Pending, sum.Impressions.Pending)
	require.Equal(t, all.Impressions.Paid, sum.Impressions.Paid)
	require.Equal(t, all.Impressions.Expired, sum.Impressions.Expired)
	require.Equal(t, all.Impressions.Defaulted, sum.Impressions.Defaulted)
	require.Equal(t, all.Impressions.Unselected, sum.Impressions.Unselected)
	require.Equal(t, all.Impressions.Duplicate, sum.Impressions.Duplicate)
	require.Equal(t, all.Selections.Joined, sum.Selections.Joined)
	require.Equal(t, all.Selections.Duplicate, sum.Selections.Duplicate)
	require.Equal(t, all.Selections.Late, sum.Selections.Late)
	require.LessOrEqual(t, sum.Selections.Rejected, all.Selections.Rejected)
	require.Equal(t, all.Payoffs.Applied, sum.Payoffs.Applied)
	require.Equal(t, all.Payoffs.Duplicate, sum.Payoffs.Duplicate)
	require.Equal(t, all.Payoffs.Late, sum.Payoffs.Late)
	require.LessOrEqual(t, sum.Payoffs.Orphan, all.Payoffs.Orphan)
	require.LessOrEqual(t, sum.Payoffs.Rejected, all.Payoffs.Rejected)
}

// drawRules gives an impression pins and categories.
func drawRules(t *rapid.T, imp *event.Impression) {
	pins := rapid.Permutation([]int32{1, 2, 3, 9}).Draw(t, "pins")
	for i := range imp.Candidates {
		if rapid.IntRange(0, 2).Draw(t, "pinned") == 0 && i < len(pins) {
			imp.Candidates[i].Pin = pins[i]
		}
		category := rapid.SampledFrom([]string{"", "ads", "news"}).Draw(t, "category")
		imp.Context.Candidates = append(imp.Context.Candidates, event.CandidateContext{Predicted: math.NaN(), Category: []byte(category)})
	}
}

// checkInstances: each of BOLD's instances waits for exactly the impressions that are pending and were its to decide. Under rules an impression
// may have no propensities.
func (s *memory) checkInstances(t require.TestingT, rules bool) {
	want := map[string]string{}
	counts := map[int32]int{}
	for id, v := range s.entries() {
		var e entry
		_, value := cutKeyHash([]byte(v))
		require.NoError(t, decodeEntry(value, 0, &e), id)
		if e.kind == pending && e.instance >= 0 {
			if rules && len(e.propensities) == 0 {
				require.Empty(t, e.ranks)
				counts[e.instance]++
				want[fmt.Sprint(e.instance)] = fmt.Sprint(counts[e.instance])
				continue
			}
			require.Len(t, e.propensities, map[bool]int{false: len(e.items), true: 1}[e.selected >= 0], id)
			require.Len(t, e.ranks, len(e.items), id)
			counts[e.instance]++
			want[fmt.Sprint(e.instance)] = fmt.Sprint(counts[e.instance])
		}
	}
	got := s.fields["feed:instances"]
	if len(want) > 0 || len(got) > 0 {
		require.Equal(t, want, got)
	}
}

// checkFlights: after a save, of each item of a learner as many selections are in flight as there are pending impressions in which it was
// selected. Partial payoffs are stored of such items alone.
func (w *world) checkFlights() {
	want, inParts := map[string]map[string]string{}, map[string]bool{}
	counts, totals := map[string]int{}, map[string]int{}
	for id, v := range w.store.entries() {
		var e entry
		_, value := cutKeyHash([]byte(v))
		require.NoError(w.t, decodeEntry(value, 0, &e), id)
		if e.kind != pending || e.selected < 0 {
			continue
		}
		l := w.m.learners[e.learner]
		if l.gone || !l.keepsSelected(&e) {
			continue
		}
		if want[l.name] == nil {
			want[l.name] = map[string]string{}
		}
		item := fmt.Sprint(e.items[e.selected])
		counts[l.name+item]++
		totals[l.name]++
		want[l.name][item] = fmt.Sprint(counts[l.name+item])
		inParts[l.name+item] = inParts[l.name+item] || e.inParts
	}
	for _, l := range w.m.configured {
		got := map[string]string{}
		for field, v := range w.store.fields[l.name+":flights"] {
			if n, _, _ := strings.Cut(v, " "); field != "pass" {
				got[field] = n
			}
		}
		require.Len(w.t, got, len(want[l.name]))
		for item, n := range want[l.name] {
			require.Equal(w.t, n, got[item], "%s: item %s", l.name, item)
		}
		for item := range w.store.fields[l.name+":open"] {
			require.True(w.t, inParts[l.name+item], "%s: partial payoffs of item %s", l.name, item)
		}
		require.EqualValues(w.t, totals[l.name], l.delay.Status().Flights, l.name)
	}
}

// TestPayoffsDoNotDependOnInterleaving is invariant 6. Whatever the interleaving of the topics, each impression is joined with the same
// selection and payoffs, and each item's learner counts the same payoffs. (Which of the other records are duplicates and which are refused
// may depend on it.) The learner's order is another law's.
func TestPayoffsDoNotDependOnInterleaving(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawConfig(t)
		cfg.ParkingTime, cfg.Remember = cfg.Learners[0].PayoffHorizon, UntilHorizon // which ones are duplicates depends on when they come
		var topics [event.Inputs][]any
		for range rapid.IntRange(1, 30).Draw(t, "records") {
			topic, record := drawRecord(t, &cfg, day)
			if p, ok := record.(*event.Payoff); ok && rapid.Bool().Draw(t, "in range") {
				p.Payoff = min(max(p.Payoff, 0), 1)
			}
			topics[topic] = append(topics[topic], record)
		}
		var results [2]string
		for k := range results {
			w := newWorld(t, cfg)
			w.now = day
			left := topics
			for len(left[0])+len(left[1])+len(left[2]) > 0 {
				topic := rapid.SampledFrom([]event.Topic{event.Impressions, event.Selections, event.Payoffs}).Draw(t, "next")
				if len(left[topic]) == 0 {
					continue
				}
				id, value := encodeRecord(left[topic][0])
				left[topic] = left[topic][1:]
				require.NoError(t, w.read(topic, id, value, w.now))
				if rapid.IntRange(0, 9).Draw(t, "crash") == 0 {
					w.save()
					w.crash()
				}
			}
			w.tick(day+10*cfg.Learners[0].PayoffHorizon, [event.Inputs]bool{true, true, true})
			w.walk(3)
			results[k] = w.learned()
		}
		require.Equal(t, results[0], results[1])
	})
}

// learned returns the state that does not depend on the interleaving.
func (w *world) learned() string {
	a := w.m.Account()
	l := w.m.byName["feed"]
	lines := []string{fmt.Sprintf("%d applied, impressions: %+v", a.Payoffs.Applied, a.Impressions)}
	for i := range int32(l.items.len()) {
		s := l.delay.Sums(i)
		lines = append(lines, fmt.Sprintf("%s: %d, %.9f, %.9f", l.items.name(i), s.N, s.R, s.Q))
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

// TestRankingsFit: a ranking that is not refused as too large fits, whatever needs escaping.
func TestRankingsFit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := testConfig()
		cfg.MaxRankingBytes = rapid.IntRange(600, 4000).Draw(t, "limit")
		cfg.Group = rapid.StringN(0, 20, 20).Draw(t, "group")
		longest := func(policy.Sums) float64 { return -999_999.999999 }
		if rapid.Bool().Draw(t, "expects nothing") {
			longest = nil
		}
		cfg.Learners[0].New = func() delay.Learner {
			return &tally{changed: map[policy.Item]bool{}, instances: true, expects: longest}
		}
		w := newWorld(t, cfg)
		id := rapid.StringN(1, 100, 400).Draw(t, "id")
		imp := event.Impression{ID: []byte(id), HasUtilities: true}
		for _, c := range rapid.SliceOfNDistinct(rapid.StringN(1, 40, 160), 1, 60, rapid.ID[string]).Draw(t, "candidates") {
			imp.Candidates = append(imp.Candidates, event.Candidate{Item: []byte(c), Utility: 1})
		}
		require.NoError(t, w.read(event.Impressions, id, event.AppendImpression(nil, &imp), day))
		for _, r := range w.out.Rankings {
			require.LessOrEqual(t, len(r.Key)+len(r.Value), cfg.MaxRankingBytes)
		}
		require.Len(t, w.letters, 1-len(w.out.Rankings))
	})
}
