package e2e

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/statetool"
	"github.com/ranker-worker/ranker-worker/internal/testenv"
)

var writeGolden = flag.String("write-golden", "", "write a golden copy of a store, as this version leaves it, to a `FILE`")

// golden is a copy of a partition as a version has left it in Redis, and what that version said of it.
type golden struct {
	Group string               `json:"group"`
	Store map[string]goldenKey `json:"store"` // by key
	// Report is what state inspect said of it.
	Report json.RawMessage `json:"report"`
	// Paid and Pending are ids of impressions: those that were paid for, and those that can still be.
	Paid    []string `json:"paid"`
	Pending []string `json:"pending"`
	// Parked are ids for which a payoff waits.
	Parked []string `json:"parked"`
	// Rankings are values of records, in order, with the header of their steps.
	Rankings []goldenRanking `json:"rankings"`
}

type goldenRanking struct {
	Value string `json:"value"`
	Steps []byte `json:"steps,omitempty"`
}

// goldenKey is a hash, set, sorted set or stream; bytes are JSON strings in base64.
type goldenKey struct {
	Hash   map[string][]byte  `json:"hash,omitempty"`
	Set    [][]byte           `json:"set,omitempty"`
	Sorted map[string]float64 `json:"sorted,omitempty"`
	Stream []goldenEntry      `json:"stream,omitempty"`
}

type goldenEntry struct {
	ID     string            `json:"id"`
	Fields map[string][]byte `json:"fields"`
}

// goldenConfig has learners of all kinds that store something of their own.
const goldenConfig = `
kafka:
  brokers: ["${KAFKA}"]
  group: %s
  start: earliest
redis: {url: "${REDIS}"}
join: {parking_time: 3650d}
learners:
  moss: {payoffs: stochastic, policy: moss, default: true, prior: empirical, payoff_horizon: 1000d, selection_timeout: 1000d}
  queue: {payoffs: stochastic, policy: elimination, payoff_horizon: 1000d, selection_timeout: 1000d}
  egreedy: {payoffs: stochastic, policy: egreedy, windows: {learned: true}, payoff_horizon: 1000d, selection_timeout: 1000d}
  sums: {payoffs: stochastic, policy: greedy, aggregate: sum, payoff_range: [0, 10], payoff_horizon: 1000d, selection_timeout: 1000d}
  sorted: {payoffs: stochastic, policy: elimination, utilities: sorted, payoff_horizon: 1000d, selection_timeout: 1000d}
  social: {payoffs: stochastic, policy: moss, utilities: social, payoff_horizon: 1000d, selection_timeout: 1000d}
  ftrl: {payoffs: adversarial, policy: ftrl, windows: {learned: true}, max_instances: 4, payoff_horizon: 1000d, selection_timeout: 1000d}
  osmd: {payoffs: adversarial, policy: osmd, windows: {learned: true}, max_instances: 4, payoff_horizon: 1000d, selection_timeout: 1000d}
`

var goldenLearners = []string{"moss", "queue", "egreedy", "sums", "sorted", "social", "ftrl", "osmd"}

// goldenFile loads the configuration of a golden copy.
func goldenFile(t *testing.T, group string, env testenv.Env) *config.Config {
	t.Helper()
	cfg, _ := load(t, fmt.Sprintf(goldenConfig, group), func(name string) (string, bool) {
		value, ok := map[string]string{"KAFKA": env.Kafka, "REDIS": env.RedisURL()}[name]
		return value, ok
	})
	return cfg
}

// TestGolden_Write writes a golden copy: only when asked to.
func TestGolden_Write(t *testing.T) {
	if *writeGolden == "" {
		return // nothing is tested here: TestGolden reads the copies
	}
	env := testenv.Embedded(t)
	g := golden{Group: "golden", Store: map[string]goldenKey{}}
	s := plain(env, "policy: greedy")
	w := makeWorld(t, 1, s, s, nil)
	// The same topics under the golden copy's own configuration.
	names := w.cfg.Kafka.Topics
	w.cfg = goldenFile(t, g.Group, env)
	w.cfg.Kafka.Topics, w.group = names, g.Group
	r := w.start(t)
	r.awaitReady(t)
	const each = 12
	for _, l := range goldenLearners {
		for i := range each {
			id := fmt.Sprintf("%s-%d", l, i)
			w.publish(t, kafka.Message{Topic: names.Impressions, Key: []byte(id), Value: fmt.Appendf(nil, `{"impression_id":"%s","learner":"%s",`+
				`"candidates":[{"item":"a","utility":%d},{"item":"b","utility":3},{"item":"ü-%d","utility":2.5}]}`, id, l, i%5, i%3)})
		}
	}
	require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] == int64(each*len(goldenLearners)) }, deadline, 20*time.Millisecond)
	for _, l := range goldenLearners {
		for i := range each {
			id := fmt.Sprintf("%s-%d", l, i)
			if i < 9 {
				w.publish(t, kafka.Message{Topic: names.Selections, Key: []byte(id), Value: fmt.Appendf(nil,
					`{"impression_id":"%s","item":"%s","utility":0.%d}`, id, []string{"a", "b"}[i%2], i+1)})
			}
			switch {
			case i < 6 && l == "sums":
				w.publish(t, w.event(id, "e-1", 0.25), w.event(id, "e-2", 2), w.event(id, "e-1", 0.25))
				g.Pending = append(g.Pending, id)
			case i < 6:
				w.publish(t, w.payoff(id, "", float64(i)/8))
				g.Paid = append(g.Paid, id)
			case i < 9:
				g.Pending = append(g.Pending, id)
			}
		}
	}
	for i := range 4 {
		g.Parked = append(g.Parked, fmt.Sprintf("parked-%d", i))
		w.publish(t, w.payoff(g.Parked[i], "", 0.5))
	}
	w.publish(t, w.payoff("moss-0", "", 1), kafka.Message{Topic: names.Payoffs, Key: []byte("x"), Value: []byte("x")})
	payoffs := int64((len(goldenLearners)-1)*6 + 3*6 + 4 + 2)
	require.Eventually(t, func() bool {
		return w.counts(t)["payoffs.read"] == payoffs && w.counts(t)["selections.read"] == int64(9*len(goldenLearners))
	}, deadline, 20*time.Millisecond)
	r.stop(t)
	var err error
	g.Report, err = json.Marshal(w.inspect(t, w.stateTool(t), statetool.InspectQuery{Partition: -1}))
	require.NoError(t, err)
	w.dump(t, &g)
	out, err := json.MarshalIndent(&g, "", " ")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(*writeGolden, append(out, '\n'), 0o600))
}

// event is a payoff with an event id.
func (w *world) event(id, name string, payoff float64) kafka.Message {
	return kafka.Message{Topic: w.cfg.Kafka.Topics.Payoffs, Key: []byte(id),
		Value: fmt.Appendf(nil, `{"impression_id":"%s","payoff":%g,"event_id":"%s"}`, id, payoff, name)}
}

// dump copies what Redis has of the partition, and the rankings.
func (w *world) dump(t *testing.T, g *golden) {
	t.Helper()
	ctx := t.Context()
	g.Store = w.copyStore(t, g.Group)
	reader := kafka.NewReader(kafka.ReaderConfig{Brokers: w.access.Kafka.Brokers, Topic: w.cfg.Kafka.Topics.Rankings, MaxWait: 100 * time.Millisecond})
	defer reader.Close()
	for len(g.Rankings) < 12*len(goldenLearners) {
		m, err := reader.ReadMessage(ctx)
		require.NoError(t, err)
		one := goldenRanking{Value: string(m.Value)}
		if !json.Valid(m.Value) {
			continue // a fence's marker
		}
		for _, h := range m.Headers {
			if h.Key == "steps" {
				one.Steps = h.Value
			}
		}
		g.Rankings = append(g.Rankings, one)
	}
}
