package checker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

// traffic makes records of all kinds: early, late, twice, faulty, for impressions that never come, for items that were
// not shown. Its clock is the worker's too.
type traffic struct {
	w     *world
	rng   *rand.Rand
	clock atomic.Int64
	made  int
	sent  map[string]int
	later []lateRecord
}

type lateRecord struct {
	at    event.Millis
	topic string
	id    string
	value string
}

const start = 1_780_000_000_000

func newTraffic(t testing.TB, w *world) *traffic {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("CHECKER_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("CHECKER_SEED=%d", seed)
	tr := &traffic{w: w, rng: rand.New(rand.NewPCG(seed, 1)), sent: map[string]int{}}
	tr.clock.Store(start)
	return tr
}

func (tr *traffic) now() event.Millis { return tr.clock.Load() }

// chance is true with probability 1/n.
func (tr *traffic) chance(n int) bool { return tr.rng.IntN(n) == 0 }

// round makes some impressions with all their events, and sends those that are due, as the clock goes on.
func (tr *traffic) round(t testing.TB, impressions int, step time.Duration) {
	t.Helper()
	for range impressions {
		tr.impression()
		tr.clock.Add(tr.rng.Int64N(2*step.Milliseconds() + 1))
	}
	tr.flush(t)
}

func (tr *traffic) flush(t testing.TB) {
	t.Helper()
	topics := tr.w.cfg.Kafka.Topics
	names := map[string]string{"impressions": topics.Impressions, "selections": topics.Selections, "payoffs": topics.Payoffs}
	var batch []kafka.Message
	kept := tr.later[:0]
	for _, r := range tr.later {
		if r.at > tr.now() {
			kept = append(kept, r)
			continue
		}
		batch = append(batch, kafka.Message{Topic: names[r.topic], Key: []byte(r.id), Value: []byte(r.value), Time: time.UnixMilli(r.at)})
		tr.sent[r.topic]++
	}
	tr.later = kept
	require.NoError(t, tr.w.writer.WriteMessages(context.Background(), batch...))
}

// moment is some time from now; now and then long after.
func (tr *traffic) moment(most time.Duration) event.Millis {
	d := tr.rng.Int64N(most.Milliseconds())
	if tr.chance(20) {
		d *= 5
	}
	return tr.now() + d
}

func (tr *traffic) add(at event.Millis, topic, id, value string) {
	own := at
	switch tr.rng.IntN(30) {
	case 0:
		own = 4_070_908_800_000 // 2099
	case 1:
		own -= 10 * 60_000
	}
	value = strings.ReplaceAll(value, "$time", string(event.AppendTime(nil, own)))
	if tr.chance(50) {
		value = value[:len(value)/2]
	}
	if topic == "selections" && tr.w.cfg.Kafka.Topics.Selections == "" {
		return
	}
	tr.later = append(tr.later, lateRecord{at, topic, id, value})
	if tr.chance(15) {
		tr.later = append(tr.later, lateRecord{at + tr.rng.Int64N(120_000), topic, id, value})
	}
}

// user returns an impression's user.
func (tr *traffic) user() string {
	all := fmt.Sprintf(`"features":[%d],`, tr.rng.IntN(100))
	if segment := tr.rng.IntN(4); segment > 0 {
		all += fmt.Sprintf(`"segment":%q,`, []string{"new", "loyal", "stranger"}[segment-1])
	}
	return all
}

func (tr *traffic) impression() {
	id := fmt.Sprintf("i-%d", tr.made)
	tr.made++
	n := 1 + tr.rng.IntN(5)
	order := tr.rng.Perm(8)[:n]
	var list []string
	for _, i := range order {
		about := ""
		if tr.chance(2) {
			about = fmt.Sprintf(`,"category":"category-%d"`, tr.rng.IntN(3))
		}
		if !tr.chance(20) {
			about += fmt.Sprintf(`,"features":[%.2f]`, tr.rng.NormFloat64())
		}
		if tr.chance(8) {
			about += fmt.Sprintf(`,"pin":%d`, 1+tr.rng.IntN(6))
		}
		list = append(list, fmt.Sprintf(`{"item":"item-%d","utility":%v%s}`, i, tr.rng.NormFloat64(), about))
	}
	learner := ""
	if tr.chance(40) {
		learner = `"learner":"nobody",`
	}
	at := tr.now()
	if tr.chance(20) {
		at += 60_000 // after its selection, perhaps
	}
	if tr.chance(10) {
		learner += `"exclude":["item-3","item-9"],`
	}
	if !tr.chance(40) {
		tr.add(at, "impressions", id, fmt.Sprintf(`{"impression_id":%q,%s"time":"$time",%s"candidates":[%s]}`, id, learner, tr.user(), strings.Join(list, ",")))
	}
	item := func() string {
		if tr.chance(20) {
			return fmt.Sprintf("item-%d", tr.rng.IntN(10))
		}
		return fmt.Sprintf("item-%d", order[0])
	}
	for range tr.rng.IntN(3) {
		shown := ""
		if tr.chance(5) {
			shown = `,"shown":"utility"`
		}
		tr.add(tr.moment(2*time.Minute), "selections", id, fmt.Sprintf(`{"impression_id":%q,"item":%q,"time":"$time"%s}`, id, item(), shown))
	}
	for k := range tr.rng.IntN(4) {
		name := ""
		if tr.w.cfg.Kafka.Topics.Selections == "" || tr.chance(2) {
			name = fmt.Sprintf(`"item":%q,`, item())
		}
		if tr.chance(3) {
			name += fmt.Sprintf(`"event_id":"e-%d",`, k/2)
		}
		value := float64(tr.rng.IntN(1000)) / 1000
		if tr.chance(25) {
			value += 2
		}
		tr.add(tr.moment(10*time.Minute), "payoffs", id, fmt.Sprintf(`{"impression_id":%q,"payoff":%v,%s"time":"$time"}`, id, value, name))
	}
}

// settings of the learners that the traffic is tried on.
var kinds = []struct{ name, learners, further string }{
	{"qpmd", "  feed: {payoffs: stochastic, policy: elimination, payoff_horizon: 10m, selection_timeout: 2m, on_expiry: drop, caps: [{category: category-1, most: 0, first: 1}, {most: 1, first: 3}]}", "join: {parking_time: 2m}"},
	{"sum as it goes", "  feed: {payoffs: stochastic, policy: moss, aggregate: sum, payoff_range: [0, 1.5], payoff_horizon: 10m, selection_timeout: 2m}", "join: {parking_time: 2m}"},
	{"sum", "  feed: {payoffs: stochastic, policy: elimination, aggregate: sum, payoff_range: [0, 1.5], payoff_horizon: 10m, selection_timeout: 2m}", "join: {parking_time: 2m, remember: 3m}"},
	{"bold", "  feed: {payoffs: adversarial, policy: osmd, max_instances: 8, payoff_horizon: 10m, selection_timeout: 2m, on_expiry: drop}", "join: {parking_time: 2m, remember: 3m}"},
	{"no selections", "  feed: {payoffs: stochastic, policy: greedy, delay: qpmd, payoff_horizon: 10m}", "join: {parking_time: 2m}"},
	{"default", "  feed: {payoffs: stochastic, policy: greedy, delay: qpmd, payoff_horizon: 10m, selection_timeout: 2m, on_expiry: {default: 0.25}}", "join: {parking_time: 2m, remember: 3m}"},
	{"direct", "  feed: {payoffs: stochastic, policy: greedy, delay: direct, payoff_horizon: 10m, selection_timeout: 2m}", "join: {parking_time: 2m, remember: 3m}"},
	{"at once", "  feed: {payoffs: stochastic, policy: moss, delay: direct, silence: at_once, payoff_horizon: 10m, selection_timeout: 2m}", "join: {parking_time: 2m}"},
	{"ages", "  feed: {payoffs: stochastic, policy: moss, delay: direct, silence: ages, drift: 0.7, on_expiry: {default: 0.5}, payoff_horizon: 1m, selection_timeout: 30s}", "join: {parking_time: 2m}"},
	{"context", "  feed: {payoffs: stochastic, policy: moss, payoff_horizon: 1m, selection_timeout: 30s, context: {user: [{name: age, range: [0, 100]}], item: [price], cross: [[age, price]], segments: [new, loyal], categories: true, clock: [hour, weekday], age: true}, caps: [{category: category-1, most: 0, first: 1}, {most: 1, first: 3}]}", "join: {parking_time: 2m}"},
	{"robust", "  feed: {payoffs: adversarial, policy: robust, payoff_horizon: 1m, selection_timeout: 30s, on_expiry: {default: 0.5}, caps: [{category: category-1, most: 0, first: 1}, {most: 1, first: 3}]}", "join: {parking_time: 2m}"},
	{"refuse", "  feed: {payoffs: stochastic, policy: moss, payoff_range: [0.2, 0.8], out_of_range: refuse, on_expiry: {default: 0.2}, payoff_horizon: 10m, selection_timeout: 2m}", "join: {parking_time: 2m}"},
	{"egreedy", "  feed: {payoffs: stochastic, policy: egreedy, delay: qpmd, payoff_horizon: 10m, selection_timeout: 2m, windows: {geometric: 0.7, max: 4}, caps: [{category: category-1, most: 0, first: 1}, {most: 1, first: 3}]}", "join: {parking_time: 2m}"},
	{"bold by rank", "  feed: {payoffs: adversarial, policy: ftrl, loss_index: rank, max_instances: 8, payoff_horizon: 10m, selection_timeout: 2m, on_expiry: drop}", "join: {parking_time: 2m}"},
	{"no selections, sum", "  feed: {payoffs: stochastic, policy: greedy, delay: direct, aggregate: sum, payoff_horizon: 10m}", "join: {parking_time: 2m}"},
	{"sorted", "  feed: {payoffs: stochastic, policy: moss, utilities: sorted, payoff_horizon: 10m, selection_timeout: 2m, on_expiry: drop, caps: [{category: category-1, most: 0, first: 1}, {most: 1, first: 3}]}", "join: {parking_time: 2m}"},
	{"social bold", "  feed: {payoffs: adversarial, policy: osmd, utilities: social, max_instances: 8, payoff_horizon: 10m, selection_timeout: 2m}", "join: {parking_time: 2m}"},
	{"no selections, bold", "  feed: {payoffs: adversarial, policy: ftrl, max_instances: 3, payoff_horizon: 10m}", "join: {parking_time: 2m}"},
	{"osmd by rank", "  feed: {payoffs: adversarial, policy: osmd, loss_index: rank, max_instances: 2, windows: {geometric: 0.7, max: 4}, payoff_horizon: 10m, selection_timeout: 2m}", "join: {parking_time: 2m}"},
	{"sorted bold by rank", "  feed: {payoffs: adversarial, policy: ftrl, loss_index: rank, utilities: sorted, max_instances: 4, payoff_horizon: 10m, selection_timeout: 2m}", "join: {parking_time: 2m}"},
	{"two", "  feed: {payoffs: stochastic, policy: elimination, default: true, payoff_horizon: 10m, selection_timeout: 2m}\n  other: {payoffs: stochastic, policy: utility}", "join: {parking_time: 2m}"},
}

// TestNothingHealthyIsAViolation: the checker finds nothing, and nothing is left open. Records come early, late, twice, faulty or never;
// the clock jumps by the minute; workers crash and drain, and the state is rebuilt.
func TestNothingHealthyIsAViolation(t *testing.T) {
	for _, kind := range kinds {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, testenv.Embedded(t), 1, kind.learners, kind.further)
			tr := newTraffic(t, w)
			for round := range 3 {
				r := w.start(t, tr.now)
				for range 4 {
					tr.round(t, 40, 5*time.Second)
					requireClean(t, w.check(t))
				}
				tr.settle(t)
				r.end(t, round%2 == 0)
			}
			tr.pass(t)
		})
	}
}

// settle waits until all that was sent has been read.
func (tr *traffic) settle(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	require.NoError(t, tr.w.await(ctx, tr.sent))
}

// pass lets all deadlines pass, rebuilds the state from the topics, and checks a last time.
func (tr *traffic) pass(t testing.TB) {
	t.Helper()
	r := tr.w.start(t, tr.now)
	for range 12 {
		tr.clock.Add(200_000)
		tr.flush(t)
		tr.settle(t)
	}
	r.stop(t)
	requireExact(t, tr.w.check(t))
	tool := tr.w.stateTool(t, tr.now)
	command(t, func(ctx context.Context) error {
		_, err := tool.Rebuild(ctx, admin.RebuildQuery{Replace: true, Yes: true})
		return err
	})
	requireExact(t, tr.w.check(t))
	r = tr.w.start(t, tr.now)
	tr.settle(t)
	r.stop(t)
	last := tr.w.check(t)
	requireExact(t, last)
	if tr.w.cfg.Learners[0].Silence == config.Ages {
		for _, l := range last.Laws {
			if strings.HasPrefix(l.Law, "silence.") && l.Law != lawNames[silenceFlights] && l.Law != lawNames[silenceOpen] { // nothing is in flight any more
				require.Zero(t, l.Open, l.Law)
				parts := tr.w.cfg.Learners[0].Aggregate == config.Sum && l.Law == lawNames[silenceSettled] // of which none is silent
				require.Equal(t, parts, l.Checked == 0, l.Law)
			}
			if l.Law == lawNames[driftHistory] && tr.w.cfg.Learners[0].Drift > 0 {
				require.Zero(t, l.Open, l.Law)
				require.Positive(t, l.Checked, l.Law)
			}
		}
	}
	if tr.w.cfg.Learners[0].Context.On() {
		for _, l := range last.Laws {
			if strings.HasPrefix(l.Law, "context.") {
				require.Zero(t, l.Open, l.Law)
				require.Positive(t, l.Checked, l.Law)
			}
		}
	}
	if tr.w.cfg.Learners[0].Policy == config.Robust {
		for _, l := range last.Laws {
			if strings.HasPrefix(l.Law, "recent.") {
				require.Zero(t, l.Open, l.Law)
				require.Positive(t, l.Checked, l.Law)
			}
		}
	}
	var b strings.Builder
	require.NoError(t, last.Print(&b))
	t.Log("\n" + b.String())
}

// requireExact requires that no law is broken, and that each record's outcome was known.
func requireExact(t testing.TB, r Report) {
	t.Helper()
	requireClean(t, r)
	for _, l := range r.Laws {
		switch l.Law {
		case "account.outcomes", "items.sums", "bold.rounds", "preferences":
			require.Zero(t, l.Open, l.Law)
		}
	}
}
