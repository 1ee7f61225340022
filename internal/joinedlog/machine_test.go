package joinedlog

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// memory is a source of records in memory.
type memory struct {
	topic event.Topic
	all   []Entry
	next  int
}

func (m *memory) Topic() event.Topic { return m.topic }

func (m *memory) Next(context.Context) (*Entry, error) {
	if m.next == len(m.all) {
		return nil, io.EOF
	}
	m.next++
	return &m.all[m.next-1], nil
}

func (m *memory) Place() string               { return fmt.Sprintf("record %d", m.next) }
func (m *memory) Progress() (done, all int64) { return int64(m.next), int64(len(m.all)) }
func (m *memory) Close() error                { return nil }

// put appends a record written at a time.
func (m *memory) put(written event.Millis, id string, value []byte) {
	m.all = append(m.all, Entry{Timed: true, Keyed: true, Record: partition.Record{Topic: m.topic, Offset: int64(len(m.all)), Timestamp: written,
		Key: []byte(id), Value: value}})
}

// observer is a learner that lists the outcomes of each impression, as the machine reports them.
type observer struct {
	delay.Learner
	latest     []policy.Item // candidates of the latest decision, by utility
	candidates map[int64][]policy.Item
	outcomes   map[int64][]string // by the impression's offset
}

func (o *observer) Needs() delay.Needs {
	n := o.Learner.Needs()
	n.Ref = true
	return n
}

func (o *observer) Decide(candidates []policy.Item, about *policy.Context, key policy.Key, d *delay.Decision) {
	o.latest = slices.Clone(candidates)
	o.Learner.Decide(candidates, about, key, d)
}

func (o *observer) add(fb delay.Feedback, outcome string) {
	o.outcomes[fb.Ref] = append(o.outcomes[fb.Ref], outcome)
}

func (o *observer) Selected(fb delay.Feedback) {
	if o.candidates[fb.Ref] == nil { // it was parked, and joins the decision being made
		o.candidates[fb.Ref] = o.latest
	}
	o.add(fb, selectedText(int32(slices.Index(o.candidates[fb.Ref], fb.Item))))
	o.Learner.Selected(fb)
}

func (o *observer) Partial(fb delay.Feedback) {
	o.add(fb, payoffText("part", fb.Payoff, fb.Age))
	o.Learner.Partial(fb)
}

func (o *observer) Paid(fb delay.Feedback) {
	if fb.Defaulted {
		o.add(fb, defaultedText)
	} else {
		o.add(fb, payoffText("paid", fb.Payoff, fb.Age))
	}
	o.Learner.Paid(fb)
}

func (o *observer) Expired(fb delay.Feedback) {
	o.add(fb, expiredText)
	o.Learner.Expired(fb)
}

func (o *observer) Unselected(fb delay.Feedback) {
	o.add(fb, unselectedText)
	o.Learner.Unselected(fb)
}

const (
	defaultedText  = "never paid: the default"
	expiredText    = "never paid: no payoff"
	unselectedText = "not selected"
)

func selectedText(rank int32) string { return fmt.Sprintf("selected utility rank %d", rank) }

func payoffText(kind string, payoff float64, age event.Millis) string {
	return fmt.Sprintf("%s %.9g after %d ms", kind, min(max(payoff, 0), 1), age)
}

// drawnLog is a random log of a few impressions.
type drawnLog struct {
	cfg    *config.Config
	accept bool // for Query.Accept
	topics [event.Topics]memory
	ids    []string
}

func (l *drawnLog) topic(t event.Topic) *memory {
	return &memory{topic: t, all: l.topics[t].all}
}

func drawLog(t *rapid.T) *drawnLog {
	set := func(key string, values ...string) string { return key + ": " + rapid.SampledFrom(values).Draw(t, key) }
	topics := rapid.SampledFrom([]string{"", ", topics: {selections: ''}"}).Draw(t, "topics")
	expiry := "on_expiry: drop" // without selections no default can be fed
	if topics == "" {
		expiry = set("on_expiry", "drop", "{default: 0.25}")
	}
	cfg, _, err := config.Load("drawn.yaml", []byte("kafka: {brokers: ['127.0.0.1:9092'], group: g"+topics+"}\n"+
		"redis: {url: 'redis://127.0.0.1:6379/0'}\njoin: {"+set("parking_time", "20s", "60s")+", remember: 1000h}\n"+
		"learners: {feed: {payoffs: stochastic, policy: greedy, silence: waits, payoff_horizon: 100s, "+timeout(topics)+expiry+", "+
		set("aggregate", "first", "sum")+", "+set("out_of_range", "clamp", "refuse")+"}}\n"), func(string) (string, bool) { return "", false })
	require.NoError(t, err)
	l := &drawnLog{cfg: cfg, accept: rapid.Bool().Draw(t, "accept"), ids: []string{"i-1", "i-2", "i-3", "i-4"}}
	for topic := range l.topics {
		l.topics[topic].topic = event.Topic(topic)
	}
	now := event.Millis(1_800_000_000_000)
	for range rapid.IntRange(1, 60).Draw(t, "records") {
		if rapid.Bool().Draw(t, "passes") {
			now += 5_000 * rapid.Int64Range(0, 8).Draw(t, "time")
		}
		l.drawRecord(t, now)
	}
	const end = 10_000_000 // beyond all deadlines
	l.put(now+end, "last", &event.Impression{HasUtilities: true, Candidates: []event.Candidate{{Item: []byte("x")}}})
	l.put(now+end, "nobody", &event.Selection{Item: []byte("x")})
	l.put(now+end, "nobody", &event.Payoff{Item: []byte("x")})
	return l
}

// timeout returns the setting of a selection timeout, if there is a selections topic.
func timeout(topics string) string {
	if topics != "" {
		return ""
	}
	return "selection_timeout: 30s, "
}

// drawRecord appends a record of one of the input topics.
func (l *drawnLog) drawRecord(t *rapid.T, now event.Millis) {
	id := rapid.SampledFrom(l.ids).Draw(t, "id")
	item := rapid.Map(rapid.SampledFrom([]string{"a", "b", "c", "d"}), func(name string) []byte { return []byte(id + "." + name) })
	at, hasTime := now-5_000*rapid.Int64Range(-4, 20).Draw(t, "age"), rapid.IntRange(0, 2).Draw(t, "has time") > 0
	switch topic := event.Topic(rapid.IntRange(0, event.Inputs-1).Draw(t, "topic")); {
	case topic == event.Selections && !l.cfg.Kafka.Topics.HasSelections():
	case rapid.IntRange(0, 14).Draw(t, "nonsense") == 0 && !(l.accept && topic == event.Impressions):
		l.topics[topic].put(now, id, []byte("{"))
	case topic == event.Impressions:
		if l.accept && slices.ContainsFunc(l.topics[topic].all, func(e Entry) bool { return string(e.Key) == id }) {
			return // the time of an impression without a ranking would not be known
		}
		imp := &event.Impression{Time: at, HasTime: hasTime, HasUtilities: l.accept || rapid.IntRange(0, 9).Draw(t, "utilities") > 0}
		for _, name := range rapid.SliceOfNDistinct(item, 1, 3, func(b []byte) string { return string(b) }).Draw(t, "candidates") {
			imp.Candidates = append(imp.Candidates, event.Candidate{Item: name, Utility: rapid.Float64Range(0, 1).Draw(t, "utility")})
		}
		l.put(now, id, imp)
	case topic == event.Selections:
		l.put(now, id, &event.Selection{Time: at, HasTime: hasTime, Item: item.Draw(t, "item")})
	default:
		p := &event.Payoff{Time: at, HasTime: hasTime, Payoff: rapid.Float64Range(-0.1, 1.1).Draw(t, "payoff")}
		if rapid.Bool().Draw(t, "names item") {
			p.Item = item.Draw(t, "item")
		}
		if rapid.Bool().Draw(t, "has event") {
			p.EventID = fmt.Appendf(nil, "e-%d", rapid.IntRange(0, 3).Draw(t, "event"))
		}
		l.put(now, id, p)
	}
}

// put appends a record written at a time.
func (l *drawnLog) put(written event.Millis, id string, record any) {
	switch r := record.(type) {
	case *event.Impression:
		r.ID = []byte(id)
		l.topics[event.Impressions].put(written, id, event.AppendImpression(nil, r))
	case *event.Selection:
		r.ID = []byte(id)
		l.topics[event.Selections].put(written, id, event.AppendSelection(nil, r))
	case *event.Payoff:
		r.ID = []byte(id)
		l.topics[event.Payoffs].put(written, id, event.AppendPayoff(nil, r))
	}
}

// work steps a worker's machine through the inputs in the order in which Read merges them, and writes the rankings. It returns the outcomes
// by id.
func (l *drawnLog) work(t *rapid.T) map[string][]string {
	mc, err := app.MachineConfig(l.cfg)
	require.NoError(t, err)
	mc.MaxRankingBytes = 1 << 20
	seen := &observer{candidates: map[int64][]policy.Item{}, outcomes: map[int64][]string{}}
	feed := &mc.Learners[0]
	seen.Learner, feed.ItemRetention = feed.New(), 0
	feed.New = func() delay.Learner { return seen }
	m, err := partition.New(mc)
	require.NoError(t, err)
	require.NoError(t, m.Loaded())
	m.KnownComplete()

	var heads []*head
	for topic := range event.Topic(event.Inputs) {
		if topic != event.Selections || mc.HasSelections {
			heads = append(heads, &head{source: l.topic(topic)})
		}
	}
	inputs, err := newMerged(t.Context(), heads)
	require.NoError(t, err)
	ranked := map[int64]string{}
	var out partition.Output
	for h := inputs.first(); h != nil; h = inputs.first() {
		source := h.source.(*memory)
		rec := source.all[source.next-1].Record
		out.Reset()
		require.NoError(t, m.Step(&partition.Input{Record: &rec, Now: math.MaxInt64, Read: [event.Inputs]bool{true, true, true}}, &out))
		for _, r := range out.Rankings {
			ranked[rec.Offset], seen.candidates[rec.Offset] = string(r.Key), seen.latest
			l.topics[event.Rankings].put(math.MaxInt64, string(r.Key), slices.Clone(r.Value))
		}
		m.Tick(math.MaxInt64, [event.Inputs]bool{})
		require.NoError(t, inputs.pass(t.Context()))
	}
	for _, id := range l.ids {
		_ = m.Visit(state.IDOf([]byte(id)), partition.Found{}) // an error: nothing is due
	}
	outcomes := map[string][]string{}
	for offset, id := range ranked {
		require.NotContains(t, outcomes, id)
		outcomes[id] = seen.outcomes[offset]
	}
	delete(outcomes, "last")
	return outcomes
}

// TestRead_LikeTheWorker: rows end as a worker's machine ended their impressions, whichever records are late, early, repeated or refused.
func TestRead_LikeTheWorker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := drawLog(t)
		want := l.work(t)
		q := &Query{Learner: &l.cfg.Learners[0], HasSelections: l.cfg.Kafka.Topics.HasSelections(), Parking: l.cfg.Join.ParkingTime}
		var ids []string // by row
		if l.accept {
			q.Accept = func(_ int32, r *event.Ranking) bool {
				ids = append(ids, string(r.ID))
				return true
			}
		}
		var sources []Source
		for topic := range event.Topic(event.Topics) {
			if topic == event.Impressions && l.accept || topic == event.Selections && !q.HasSelections {
				continue
			}
			sources = append(sources, l.topic(topic))
		}
		log, err := Read(t.Context(), sources, q)
		require.NoError(t, err)
		defer log.Close()
		if l.accept {
			require.Equal(t, endsOf(want), l.outcomes(log, ids))
			return
		}
		require.Equal(t, want, l.events(t, log))
	})
}

// events returns a log's events by impression.
func (l *drawnLog) events(t *rapid.T, log *Log) map[string][]string {
	all := map[string][]string{}
	var ids []string // by row
	require.NoError(t, log.Play(func(e *Event) error {
		if e.Kind == Decided {
			id, _, _ := strings.Cut(log.Names[e.Items[0]], ".")
			ids = append(ids, id)
			require.NotContains(t, all, id)
			all[id] = nil
			return nil
		}
		text := ""
		switch e.Kind {
		case WasSelected:
			text = selectedText(log.Outcomes[e.Row].Selected)
		case PaidPart:
			text = payoffText("part", e.Payoff, e.Age)
		case WasPaid:
			text = payoffText("paid", e.Payoff, e.Age)
		case NeverPaid:
			text = l.unpaidText(&log.Outcomes[e.Row])
		case NotSelected:
			text = unselectedText
		}
		all[ids[e.Row]] = append(all[ids[e.Row]], text)
		return nil
	}))
	delete(all, "x") // the last impression
	return all
}

// endsOf returns the last of the machine's outcomes by id, without the age of a payoff.
func endsOf(outcomes map[string][]string) map[string]string {
	ends := map[string]string{}
	for id, all := range outcomes {
		ends[id], _, _ = strings.Cut(all[len(all)-1], " after")
	}
	return ends
}

// unpaidText returns the text of a row that is never paid.
func (l *drawnLog) unpaidText(o *Outcome) string {
	if o.Refused || l.cfg.Learners[0].OnExpiry.Default == nil {
		return expiredText
	}
	return defaultedText
}

// outcomes returns the outcomes of rows by id.
func (l *drawnLog) outcomes(log *Log, ids []string) map[string]string {
	ends := map[string]string{}
	for row, o := range log.Outcomes {
		end := map[How]string{Unselected: unselectedText, Unpaid: l.unpaidText(&o), Immature: "immature"}[o.How]
		if o.How == Paid {
			end, _, _ = strings.Cut(payoffText("paid", o.Payoff, 0), " after")
		}
		ends[ids[row]] = end
	}
	delete(ends, "last")
	return ends
}
