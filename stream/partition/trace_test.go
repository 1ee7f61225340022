package partition

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/test/transcript"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// TestTraces runs the traces in testdata. Times are of one day; a record's Kafka timestamp is the clock's, which `now` sets,
// unless kafka=TIME says otherwise. The commands:
//
//	config key=value …                  before the first record; see traceConfig
//	now 10:00:00                        sets the clock
//	impression ID item:utility …        learner=NAME, raw=JSON, key=KEY, @EVENT-TIME
//	selection ID ITEM                   @EVENT-TIME
//	payoff ID PAYOFF                    item=ITEM, event=ID, @EVENT-TIME
//	tick 10:00:00 [not=TOPIC]           sets the clock; all topics but TOPIC are read to their ends
//	save                                a checkpoint
//	walk                                the expiry walk, to its end
//	crash [remove=LEARNER] [restore=yes]  with one learner less, or with all again: a new machine from the last checkpoint replays the records since
//	account | entries | stored | calls   prints the account, the entries, the store, the learners' calls
func TestTraces(t *testing.T) {
	transcript.Run(t, func(t *testing.T) func([]string) []string {
		tr := &tracer{t: t, cfg: testConfig()}
		tr.traceConfig(nil)
		return tr.run
	})
}

type tracer struct {
	t     *testing.T
	cfg   Config
	w     *world
	calls []string
	seen  int // dead letters printed
}

// day is the origin of the traces' times.
var day, _ = event.ParseTime([]byte("2026-11-21T00:00:00Z"))

func clock(t event.Millis) string {
	s := (t - day) / 1000
	return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
}

func at(t *testing.T, s string) event.Millis {
	m, ok := event.ParseTime([]byte("2026-11-21T" + s + "Z"))
	require.True(t, ok, "time %q", s)
	return m
}

// options splits key=value words and @times from the rest.
func options(words []string) (plain []string, opts map[string]string) {
	opts = map[string]string{}
	for _, word := range words {
		switch key, value, ok := strings.Cut(word, "="); {
		case word[0] == '@':
			opts["@"] = word[1:]
		case ok:
			opts[key] = value
		default:
			plain = append(plain, word)
		}
	}
	return plain, opts
}

func (tr *tracer) run(words []string) []string {
	plain, opts := options(words[1:])
	if words[0] == "config" {
		tr.traceConfig(opts)
		return nil
	}
	if tr.w == nil {
		tr.w = newWorld(tr.t, tr.cfg)
	}
	w := tr.w
	switch words[0] {
	case "now":
		w.now = at(tr.t, plain[0])
	case "impression", "selection", "payoff":
		return tr.read(words[0], plain, opts)
	case "tick":
		atEnd := [event.Inputs]bool{true, true, true}
		if not := opts["not"]; not != "" {
			atEnd[slices.Index([]string{"impressions", "selections", "payoffs"}, not)] = false
		}
		w.tick(at(tr.t, plain[0]), atEnd)
		if w.m.Watermark() == 0 {
			return []string{"no watermark"}
		}
		return []string{"watermark " + clock(w.m.Watermark())}
	case "save":
		w.save()
	case "walk":
		w.walk(2)
	case "crash":
		if name := opts["remove"]; name != "" {
			w.cfg.Learners = slices.DeleteFunc(slices.Clone(w.cfg.Learners), func(l LearnerConfig) bool { return l.Name == name })
		}
		if opts["restore"] != "" {
			w.cfg.Learners = tr.cfg.Learners
		}
		before := len(w.out.Rankings)
		w.crash()
		require.Len(tr.t, w.out.Rankings, before, "a replay ranks nothing that stands in the log")
		return tr.printed(before)
	case "account":
		return account(w.m.Account())
	case "entries":
		return w.entries()
	case "stored":
		return tr.stored()
	case "calls":
		calls := tr.calls
		tr.calls = nil
		return calls
	default:
		tr.t.Fatalf("unknown command %q", words[0])
	}
	return nil
}

// traceConfig takes: learners=a,b (the first is the default); selections=off; aggregate=sum; default=PAYOFF;
// range=LOW,HIGH; instances=on; expects=on; remember=SECONDS; max-parked=N; ranking-bytes=N.
func (tr *tracer) traceConfig(opts map[string]string) {
	l := tr.cfg.Learners[0]
	number := func(s string) float64 {
		f, err := strconv.ParseFloat(s, 64)
		require.NoError(tr.t, err)
		return f
	}
	for key, value := range opts {
		switch key {
		case "learners", "instances", "expects":
		case "selections":
			tr.cfg.HasSelections = value != "off"
		case "aggregate":
			l.AggregateSum = value == "sum"
		case "out-of-range":
			l.RefuseOutOfRange = value == "refuse"
		case "default":
			d := number(value)
			l.ExpiryDefault = &d
		case "range":
			low, high, _ := strings.Cut(value, ",")
			l.PayoffMin, l.PayoffMax = number(low), number(high)
		case "remember":
			tr.cfg.Remember = int64(1000 * number(value))
		case "max-parked":
			tr.cfg.MaxParked = int(number(value))
		case "ranking-bytes":
			tr.cfg.MaxRankingBytes = int(number(value))
		default:
			tr.t.Fatalf("unknown option %q", key)
		}
	}
	names := []string{"feed"}
	if opts["learners"] != "" {
		names = strings.Split(opts["learners"], ",")
	}
	tr.cfg.Learners = nil
	for i, name := range names {
		l.Name, l.Default = name, i == 0 && len(names) > 1
		l.New = func() delay.Learner {
			t := &tally{changed: map[policy.Item]bool{}, calls: &tr.calls, instances: opts["instances"] == "on"}
			if opts["expects"] == "on" {
				t.expects = func(s policy.Sums) float64 { return (s.R + 0.5) / float64(s.N+3) }
			}
			return t
		}
		tr.cfg.Learners = append(tr.cfg.Learners, l)
	}
}

func (tr *tracer) read(what string, plain []string, opts map[string]string) []string {
	w, id := tr.w, plain[0]
	var time event.Millis
	if opts["@"] != "" {
		time = at(tr.t, opts["@"])
	}
	hasTime := opts["@"] != ""
	number := func(s string) float64 {
		f, err := strconv.ParseFloat(s, 64)
		require.NoError(tr.t, err)
		return f
	}
	topic := event.Impressions
	var value []byte
	switch what {
	case "impression":
		imp := event.Impression{ID: []byte(id), Learner: []byte(opts["learner"]), Time: time, HasTime: hasTime}
		for _, c := range plain[1:] {
			item, utility, ok := strings.Cut(c, ":")
			c := event.Candidate{Item: []byte(item)}
			if imp.HasUtilities = ok; ok {
				c.Utility = number(utility)
			}
			imp.Candidates = append(imp.Candidates, c)
		}
		value = event.AppendImpression(nil, &imp)
	case "selection":
		topic = event.Selections
		value = event.AppendSelection(nil, &event.Selection{ID: []byte(id), Item: []byte(plain[1]), Time: time, HasTime: hasTime})
	case "payoff":
		topic = event.Payoffs
		value = event.AppendPayoff(nil, &event.Payoff{ID: []byte(id), Payoff: number(plain[1]), Time: time, HasTime: hasTime,
			Item: []byte(opts["item"]), EventID: []byte(opts["event"])})
	}
	if raw := opts["raw"]; raw != "" {
		value = []byte(raw)
	}
	key := id
	if opts["key"] != "" {
		key = opts["key"]
	}
	before, rankings := w.m.Account(), len(w.out.Rankings)
	timestamp := w.now
	if opts["kafka"] != "" {
		timestamp = at(tr.t, opts["kafka"])
	}
	if err := w.read(topic, key, value, timestamp); err != nil {
		return []string{"error: " + err.Error()}
	}
	lines := tr.printed(rankings)
	return append(lines, difference(account(before), account(w.m.Account()))...)
}

// printed describes the rankings and dead letters that have not been printed.
func (tr *tracer) printed(rankings int) (lines []string) {
	for _, r := range tr.w.out.Rankings[rankings:] {
		var got event.Ranking
		require.NoError(tr.t, event.NewDecoder(event.Limits{}).Ranking(&got, r.Value))
		line := fmt.Sprintf("ranking %s by %s at %s:", got.ID, got.Learner, clock(got.Time))
		for _, item := range got.Items {
			line += " " + string(item)
		}
		if len(got.Decision.Expected) > 0 {
			line += fmt.Sprintf(", expected %v", got.Decision.Expected)
		}
		if got.Decision.HasSelection {
			line += ", selection by " + clock(got.Decision.SelectionDeadline)
		}
		lines = append(lines, line+", payoff by "+clock(got.Decision.PayoffDeadline))
	}
	for _, l := range tr.w.letters[tr.seen:] {
		lines = append(lines, fmt.Sprintf("dead letter %s %d: %s: %s", topicName(l.Topic), l.Offset, l.Reason, l.Detail))
	}
	tr.seen = len(tr.w.letters)
	return lines
}

func (tr *tracer) stored() (lines []string) {
	s := tr.w.store
	for _, hash := range slices.Sorted(maps.Keys(s.fields)) {
		for _, f := range slices.Sorted(maps.Keys(s.fields[hash])) {
			value := s.fields[hash][f]
			if strings.HasSuffix(hash, ":"+NamesHash) || strings.HasSuffix(hash, ":"+missedHash) {
				value = strconv.QuoteToASCII(value)
			}
			lines = append(lines, fmt.Sprintf("%s %s = %s", hash, f, value))
		}
	}
	due := s.due()
	for _, b := range slices.Sorted(maps.Keys(due)) {
		lines = append(lines, fmt.Sprintf("bucket %s: %s", clock(b*tick), strings.Join(due[b], " ")))
	}
	return lines
}

// account has one line per topic, with the counts that are not 0.
func account(a Account) []string {
	i, s, p := a.Impressions, a.Selections, a.Payoffs
	return []string{
		counted("impressions", a.Read[0], "pending", i.Pending, "paid", i.Paid, "expired", i.Expired, "defaulted", i.Defaulted,
			"unselected", i.Unselected, "duplicate", i.Duplicate, "rejected", i.Rejected, "adopted", a.Adopted),
		counted("selections", a.Read[1], "parked", s.Parked, "joined", s.Joined, "duplicate", s.Duplicate, "late", s.Late,
			"orphan", s.Orphan, "rejected", s.Rejected),
		counted("payoffs", a.Read[2], "parked", p.Parked, "applied", p.Applied, "duplicate", p.Duplicate, "late", p.Late,
			"orphan", p.Orphan, "rejected", p.Rejected, "clamped", a.PayoffsClamped),
	}
}

func counted(name string, read int64, pairs ...any) string {
	s := fmt.Sprintf("%s %d:", name, read)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != int64(0) {
			s += fmt.Sprintf(" %s %d", pairs[i], pairs[i+1])
		}
	}
	return s
}

// difference names the counts that have changed, reads apart.
func difference(before, after []string) []string {
	var changes []string
	for k := range after {
		old := strings.Fields(before[k])[2:]
		fields := strings.Fields(after[k])
		topic, now := strings.TrimSuffix(fields[0], "s"), fields[2:]
		value := func(list []string, name string) int64 {
			i := slices.Index(list, name)
			if i < 0 {
				return 0
			}
			n, _ := strconv.ParseInt(list[i+1], 10, 64)
			return n
		}
		var names []string
		for i := 0; i < len(now); i += 2 {
			names = append(names, now[i])
		}
		for i := 0; i < len(old); i += 2 {
			if !slices.Contains(names, old[i]) {
				names = append(names, old[i])
			}
		}
		for _, name := range names {
			if d := value(now, name) - value(old, name); d != 0 {
				changes = append(changes, fmt.Sprintf("%s %s %+d", topic, name, d))
			}
		}
	}
	return changes
}
