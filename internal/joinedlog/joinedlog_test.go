package joinedlog

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// logs are records of a small log, by topic.
type logs [event.Topics][]string

// at is a time of the log, so many seconds in.
func at(second int) string {
	return time.UnixMilli(1_800_000_000_000 + int64(second)*1000).UTC().Format(time.RFC3339)
}

func (l *logs) impression(id string, second int) {
	l[event.Impressions] = append(l[event.Impressions], fmt.Sprintf(
		`{"impression_id":%q,"time":%q,"candidates":[{"item":"b","utility":0.2},{"item":"a","utility":0.1},{"item":"c","utility":0.3}]}`, id, at(second)))
}

func (l *logs) ranking(id string, second int, items, more string) {
	l[event.Rankings] = append(l[event.Rankings], fmt.Sprintf(
		`{"impression_id":%q,"learner":"feed","time":%q,"items":[%s],"decision":{"group":"g","policy":"moss","delay":"direct","partition":0,"offset":%d,"layout":1,`+
			`"explored":false,"seed":"0000000000000001","began":%q,"selection_deadline":%q,"payoff_deadline":%q%s}}`,
		id, at(second), items, len(l[event.Rankings]), at(second), at(second+100), at(second+1000), more))
}

// decided is an impression with its ranking.
func (l *logs) decided(id string, second int) {
	l.impression(id, second)
	l.ranking(id, second, `"a","c","b"`, "")
}

func (l *logs) selected(id, item string, second int, more string) {
	l[event.Selections] = append(l[event.Selections], fmt.Sprintf(`{"impression_id":%q,"item":%q,"time":%q%s}`, id, item, at(second), more))
}

func (l *logs) paid(id string, payoff float64, second int, more string) {
	l[event.Payoffs] = append(l[event.Payoffs], fmt.Sprintf(`{"impression_id":%q,"payoff":%v,"time":%q%s}`, id, payoff, at(second), more))
}

// late has event time go on to a second in all topics.
func (l *logs) late(second int) {
	l.decided("last", second)
	l.selected("nobody", "a", second, "")
	l.paid("nobody", 0, second, "")
}

func (l *logs) read(t *testing.T, q *Query) *Log {
	t.Helper()
	log, err := l.try(t, q)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, log.Close()) })
	return log
}

func (l *logs) try(t *testing.T, q *Query) (*Log, error) {
	t.Helper()
	if q.Learner == nil {
		q.Learner = learner(t)
	}
	q.Parking = time.Hour
	var all []Source
	dir := t.TempDir()
	for topic, lines := range l {
		if event.Topic(topic) == event.Selections && !q.HasSelections {
			continue
		}
		name := filepath.Join(dir, topicNames[topic])
		require.NoError(t, os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o600))
		s, err := OpenLines(event.Topic(topic), name)
		require.NoError(t, err)
		defer s.Close()
		all = append(all, s)
	}
	return Read(context.Background(), all, q)
}

func learner(t *testing.T, settings ...config.Setting) *config.Learner {
	l, _, err := config.ReadLearner("feed", true, append(settings, config.Setting{"payoffs", "stochastic"}))
	require.NoError(t, err)
	return &l
}

// The events of a row, in words.
func eventsOf(t *testing.T, log *Log, row int32) (all []string) {
	require.NoError(t, log.Play(func(e *Event) error {
		if e.Row != row {
			return nil
		}
		switch e.Kind {
		case Decided:
			all = append(all, fmt.Sprintf("decided %v %v", e.Items, e.Order))
		case WasSelected:
			all = append(all, "selected")
		case PaidPart:
			all = append(all, fmt.Sprintf("part %v after %ds", e.Payoff, e.Age/1000))
		case WasPaid:
			all = append(all, fmt.Sprintf("paid %v after %ds", e.Payoff, e.Age/1000))
		case NeverPaid:
			all = append(all, "never paid")
		case NotSelected:
			all = append(all, "not selected")
		}
		return nil
	}))
	return all
}

// TestRead_Joins: events are joined as by the worker. Items are numbered in the order of their utilities: a 0, b 1, c 2.
func TestRead_Joins(t *testing.T) {
	const shown = "decided [0 1 2] [0 2 1]"
	for name, c := range map[string]struct {
		log  func(l *logs)
		want []string
		how  How
	}{
		"paid":      {func(l *logs) { l.selected("i", "c", 5, ""); l.paid("i", 0.7, 50, "") }, []string{shown, "selected", "paid 0.7 after 50s"}, Paid},
		"never":     {func(l *logs) { l.selected("i", "c", 5, "") }, []string{shown, "selected", "never paid"}, Unpaid},
		"none":      {func(*logs) {}, []string{shown, "not selected"}, Unselected},
		"not shown": {func(l *logs) { l.selected("i", "d", 5, "") }, []string{shown, "not selected"}, Unselected},
		"too late":  {func(l *logs) { l.selected("i", "c", 101, "") }, []string{shown, "not selected"}, Unselected},
		"by then":   {func(l *logs) { l.selected("i", "c", 100, ""); l.paid("i", 0.7, 1000, "") }, []string{shown, "selected", "paid 0.7 after 1000s"}, Paid},
		"paid late": {func(l *logs) { l.selected("i", "c", 5, ""); l.paid("i", 0.7, 1001, "") }, []string{shown, "selected", "never paid"}, Unpaid},
		"other item": {func(l *logs) {
			l.selected("i", "c", 5, "")
			l.paid("i", 0.7, 50, `,"item":"a"`)
			l.paid("i", 0.2, 60, `,"item":"c"`)
		},
			[]string{shown, "selected", "paid 0.2 after 60s"}, Paid},
		"twice": {func(l *logs) {
			l.selected("i", "c", 5, "")
			l.selected("i", "a", 6, "")
			l.paid("i", 0.7, 50, "")
			l.paid("i", 0.1, 51, "")
		},
			[]string{shown, "selected", "paid 0.7 after 50s"}, Paid},
		"payoff first": {func(l *logs) { l.paid("i", 0.7, 2, ""); l.selected("i", "c", 5, "") }, []string{shown, "selected", "paid 0.7 after 2s"}, Paid},
		"unranked":     {func(l *logs) { l.selected("i", "c", 5, `,"shown":"utility"`) }, []string{shown}, Replaced},
	} {
		t.Run(name, func(t *testing.T) {
			var l logs
			l.decided("i", 0)
			c.log(&l)
			l.late(5000)
			log := l.read(t, &Query{HasSelections: true})
			require.Equal(t, c.want, eventsOf(t, log, 0))
			require.Equal(t, c.how, log.Outcomes[0].How)
			require.Equal(t, Immature, log.Outcomes[1].How)
			require.EqualValues(t, 1, log.Counts.Immature)
			if c.how == Paid || c.how == Unpaid {
				require.EqualValues(t, 2, log.Outcomes[0].Selected) // c
			}
		})
	}
}

// TestRead_Immature: a row counts once its deadline is past, whether or not it was paid before; or once all up to it have ended.
func TestRead_Immature(t *testing.T) {
	for end, want := range map[int][2]How{1000: {Immature, Immature}, 1001: {Unpaid, Paid}} {
		var l logs
		l.decided("waits", 0)
		l.decided("i", 0)
		l.selected("waits", "c", 5, "")
		l.selected("i", "c", 5, "")
		l.paid("i", 0.7, 50, "")
		l.late(end)
		log := l.read(t, &Query{HasSelections: true})
		require.Equal(t, []string{"decided [0 1 2] [0 2 1]", "selected", "paid 0.7 after 50s"}, eventsOf(t, log, 1))
		require.Equal(t, want, [2]How{log.Outcomes[0].How, log.Outcomes[1].How}, end)
	}
	var l logs
	for i, id := range []string{"i", "j", "waits", "k"} {
		l.decided(id, i)
		l.selected(id, "c", 5, "")
		if id != "waits" {
			l.paid(id, 0.7, 50, "")
		}
	}
	l.late(900)
	var ends []How
	for _, o := range l.read(t, &Query{HasSelections: true}).Outcomes {
		ends = append(ends, o.How)
	}
	require.Equal(t, []How{Paid, Paid, Immature, Immature, Immature}, ends)
}

// TestRead_Sums: with aggregate: sum all payoffs until the deadline add up, each event once.
func TestRead_Sums(t *testing.T) {
	var l logs
	l.decided("i", 0)
	l.selected("i", "c", 5, "")
	l.paid("i", 0.25, 50, `,"event_id":"x"`)
	l.paid("i", 0.25, 60, `,"event_id":"x"`)
	l.paid("i", 0.5, 70, "")
	l.paid("i", 0.5, 80, "")
	l.paid("i", 8, 1001, "")
	l.late(5000)
	log := l.read(t, &Query{HasSelections: true, Learner: learner(t, config.Setting{"aggregate", "sum"}, config.Setting{"payoff_range", "[0, 2]"})})
	require.Equal(t, []string{"decided [0 1 2] [0 2 1]", "selected", "part 0.25 after 50s", "part 0.75 after 70s", "part 1.25 after 80s", "paid 1.25 after 1000s"},
		eventsOf(t, log, 0))
}

// TestRead_WithoutSelections: a payoff's item is the selection.
func TestRead_WithoutSelections(t *testing.T) {
	var l logs
	l.decided("i", 0)
	l.decided("j", 1)
	l.paid("i", 0.5, 50, `,"item":"c"`)
	l.late(5000)
	_, err := l.try(t, &Query{})
	require.ErrorIs(t, err, errSelections)
	for i := range l[event.Rankings] {
		_, rest, _ := strings.Cut(l[event.Rankings][i], `"selection_deadline":`)
		_, rest, _ = strings.Cut(rest, ",")
		head, _, _ := strings.Cut(l[event.Rankings][i], `"selection_deadline":`)
		l[event.Rankings][i] = head + rest
	}
	log := l.read(t, &Query{})
	require.Equal(t, []string{"decided [0 1 2] [0 2 1]", "selected", "paid 0.5 after 50s"}, eventsOf(t, log, 0))
	require.Equal(t, []string{"decided [0 1 2] [0 2 1]", "not selected"}, eventsOf(t, log, 1))
}

// TestRead_Orders: whatever the order of a file's lines, and whichever way records are wrapped, the log is the same.
func TestRead_Orders(t *testing.T) {
	var l logs
	for i := range 300 {
		id := fmt.Sprint("i-", i)
		l.decided(id, 30*i)
		if i%7 > 0 {
			l.selected(id, "c", 30*i+20, "")
		}
		if i%3 > 0 {
			l.paid(id, float64(i%11)/10, 30*i+500, "")
		}
	}
	l.late(20_000)
	want := l.read(t, &Query{HasSelections: true})
	require.EqualValues(t, 1, want.Counts.Immature)
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 1))
		mixed := l
		for topic := range mixed {
			lines := append([]string(nil), mixed[topic]...)
			if seed&1 > 0 || topic == int(event.Payoffs) {
				rng.Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
			}
			for i := range lines {
				if seed&2 > 0 {
					payload, err := json.Marshal(lines[i])
					require.NoError(t, err)
					lines[i] = fmt.Sprintf(`{"topic":"t","partition":1,"offset":%d,"tstype":"create","ts":1900000000000,"broker":0,"key":"k","payload":%s}`, i, payload)
				}
			}
			mixed[topic] = lines
		}
		got := mixed.read(t, &Query{HasSelections: true})
		require.Equal(t, want.Outcomes, got.Outcomes, "seed %d", seed)
		require.Equal(t, want.Counts, got.Counts)
	}
}

// TestRead_Uncertain: rankings whose order of utilities the learner has guessed are no rows, and are counted.
func TestRead_Uncertain(t *testing.T) {
	var l logs
	for k := range 10 {
		id := fmt.Sprint("guessed-", k)
		l.impression(id, k)
		l.ranking(id, k, `"a","c","b"`, `,"ranks":[0,1,2],"undecided":[0]`)
	}
	const note = "10 rankings left out: the order of utilities was not certain"
	_, err := l.try(t, &Query{HasSelections: true})
	require.ErrorIs(t, err, ErrNothing)
	require.ErrorContains(t, err, note)

	for k := range 10 {
		id := fmt.Sprint("certain-", k)
		l.impression(id, 10+k)
		l.ranking(id, 10+k, `"a","c","b"`, `,"ranks":[0,1,2]`)
	}
	log := l.read(t, &Query{HasSelections: true})
	require.Len(t, log.Outcomes, 10)
	require.Equal(t, []string{note}, log.Notes)
}

// TestRead_Faults: records that cannot be read are reported; records of other learners are left out.
func TestRead_Faults(t *testing.T) {
	var l logs
	_, err := l.try(t, &Query{HasSelections: true})
	require.ErrorIs(t, err, ErrNothing)

	l.decided("i", 0)
	l.ranking("gone", 1, `"a","c","b"`, "")                     // without its impression
	l.impression("other", 2)                                    // whose candidates are others
	l.ranking("other", 2, `"a","c","z"`, "")                    //
	l.impression("doubtful", 3)                                 //
	l.ranking("doubtful", 3, `"a","c","b"`, `,"ranks":[0,1,2]`) // found by itself
	l[event.Impressions] = append(l[event.Impressions], `{"impression_id":`)
	l.late(5000)
	log := l.read(t, &Query{HasSelections: true})
	require.Len(t, log.Outcomes, 3)
	require.EqualValues(t, 2, log.Counts.Halves)
	require.EqualValues(t, 1, log.Counts.Refused[event.Impressions])
	require.Contains(t, strings.Join(log.Notes, "\n"), "impressions:4: ")
	require.Contains(t, strings.Join(log.Notes, "\n"), "2 rankings left out: the impression is not there, or the ranking came twice")

	named := learner(t)
	named.Name = "other"
	_, err = l.try(t, &Query{HasSelections: true, Learner: named})
	require.ErrorContains(t, err, `none is of learner "other"`)

	l[event.Payoffs] = []string{"nonsense"}
	_, err = l.try(t, &Query{HasSelections: true})
	require.ErrorContains(t, err, "none of 1 records can be read as one of payoffs")
}

// TestRead_Shadows: shadows' decisions are present as utility ranks in the order that they would have shown.
func TestRead_Shadows(t *testing.T) {
	var l logs
	l.impression("i", 0)
	l.ranking("i", 0, `"a","c","b"`, `,"shadows":{"other":[0,1,2],"dark":[1,0,2]}`) // c, a, b: ranks 2, 0, 1
	l.decided("j", 1)
	l.late(5000)
	log := l.read(t, &Query{HasSelections: true, Shadows: []string{"dark", "absent"}})
	require.Contains(t, log.Shadows, "dark")
	require.NotContains(t, log.Shadows, "absent")
	var got [][][]int32
	require.NoError(t, log.Play(func(e *Event) error {
		if e.Kind == Decided {
			got = append(got, append([][]int32(nil), e.Shadows...))
		}
		return nil
	}))
	require.Equal(t, [][][]int32{{{2, 0, 1}, nil}, nil, nil}, got)
}

// TestRead_Bounds: only impressions between two times are rows.
func TestRead_Bounds(t *testing.T) {
	var l logs
	for i := range 100 {
		l.decided(fmt.Sprint(i), 10*i)
	}
	l.late(5000)
	from, err := time.Parse(time.RFC3339, at(200))
	require.NoError(t, err)
	log := l.read(t, &Query{HasSelections: true, From: from.UnixMilli(), To: from.UnixMilli() + 50_000})
	require.Len(t, log.Outcomes, 5)
	require.Equal(t, from.UnixMilli(), log.First)
}

// TestRead_ToEarlier: rows before Query.To are mature once their deadlines have passed in the other topics, since decisions behind it are
// not read to their end.
func TestRead_ToEarlier(t *testing.T) {
	var l logs
	for i := range 100 {
		l.decided(fmt.Sprint(i), 10*i)
		l.selected(fmt.Sprint(i), "a", 10*i, "")
	}
	l.selected("nobody", "a", 5000, "")
	l.paid("nobody", 0, 5000, "")
	to, err := time.Parse(time.RFC3339, at(900))
	require.NoError(t, err)
	require.EqualValues(t, 100, l.read(t, &Query{HasSelections: true}).Counts.Immature)
	log := l.read(t, &Query{HasSelections: true, To: to.UnixMilli()})
	require.EqualValues(t, 90, log.Counts.Unpaid)
	require.Zero(t, log.Counts.Immature)
}

func BenchmarkRead(b *testing.B) {
	var l logs
	for i := range 20_000 {
		id := fmt.Sprint("i-", i)
		l.decided(id, i)
		l.selected(id, "c", i+20, "")
		l.paid(id, 0.5, i+500, "")
	}
	dir := b.TempDir()
	for topic, lines := range l {
		require.NoError(b, os.WriteFile(filepath.Join(dir, topicNames[topic]), []byte(strings.Join(lines, "\n")), 0o600))
	}
	set, _, err := config.ReadLearner("feed", true, []config.Setting{{"payoffs", "stochastic"}})
	require.NoError(b, err)
	b.ReportAllocs()
	for b.Loop() {
		var all []Source
		for topic := range l {
			s, err := OpenLines(event.Topic(topic), filepath.Join(dir, topicNames[topic]))
			require.NoError(b, err)
			all = append(all, s)
		}
		log, err := Read(context.Background(), all, &Query{Learner: &set, HasSelections: true, Parking: time.Hour})
		require.NoError(b, err)
		require.Len(b, log.Outcomes, 20_000)
		require.NoError(b, log.Close())
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/20_000, "µs/row")
}
