package page

import (
	"context"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/internal/test/testworker"
)

// groupOf writes the configuration of a group with topics of four partitions, and makes these.
func groupOf(t *testing.T, env testenv.Env) *config.Config {
	t.Helper()
	group := testenv.Unique(t, "page")
	cfg, _ := testworker.Load(t, fmt.Sprintf(`
kafka:
  brokers: [%s]
  group: %s
  start: earliest
  topics: {impressions: %[2]s-i, selections: %[2]s-s, payoffs: %[2]s-p, rankings: %[2]s-r}
redis: {url: %q}
learners: {feed: {payoffs: stochastic}}
`, env.Kafka, group, env.RedisURL()), os.LookupEnv)
	testworker.MakeTopics(t, cfg, 4)
	return cfg
}

// join starts a worker of the group, and gives its page's address.
func join(t *testing.T, cfg *config.Config) (address, id string) {
	t.Helper()
	w := testworker.Start(t, cfg, app.Options{Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), Version: "test",
		SessionTimeout: 30 * time.Second})
	t.Cleanup(func() { w.Stop(t) })
	server := httptest.NewServer(w.Board.Handler())
	t.Cleanup(server.Close)
	return server.URL + "/", w.Worker.ID()
}

// write sends records of n impressions, keyed by their ids: the prefix and a number from 0 on.
func write(t *testing.T, cfg *config.Config, topic, prefix string, n int, record func(id string, i int) string) {
	t.Helper()
	w := &kafka.Writer{Transport: testenv.Transport(t, topic), Addr: kafka.TCP(cfg.Kafka.Brokers...), Topic: topic,
		Balancer: kafka.Murmur2Balancer{}, BatchTimeout: time.Millisecond, RequiredAcks: kafka.RequireAll}
	var all []kafka.Message
	for i := range n {
		id := fmt.Sprint(prefix, i)
		all = append(all, kafka.Message{Key: []byte(id), Value: []byte(record(id, i))})
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, w.WriteMessages(ctx, all...))
	require.NoError(t, w.Close())
}

// TestTwoWorkers: the page of either worker shows the partitions of both, and the sum of the records that both have read.
func TestTwoWorkers(t *testing.T) {
	browser := chromium(t)
	cfg := groupOf(t, testenv.Real(t))
	one, first := join(t, cfg)
	other, second := join(t, cfg)
	const n = 500
	items := []string{"road", "river", "hill", "harbour"}
	impression := func(id string, _ int) string {
		return fmt.Sprintf(`{"impression_id":%q,"candidates":[{"item":"road","utility":0.9},{"item":"river","utility":0.7},`+
			`{"item":"hill","utility":0.5},{"item":"harbour","utility":0.3}]}`, id)
	}
	write(t, cfg, cfg.Kafka.Topics.Impressions, "i-", n, impression)
	write(t, cfg, cfg.Kafka.Topics.Selections, "i-", n-20, func(id string, i int) string {
		return fmt.Sprintf(`{"impression_id":%q,"item":%q}`, id, items[i%4])
	})
	write(t, cfg, cfg.Kafka.Topics.Payoffs, "i-", n-100, func(id string, i int) string {
		return fmt.Sprintf(`{"impression_id":%q,"payoff":%v}`, id, []float64{0.1, 0.3, 0.5, 0.9}[i%4])
	})
	for own, address := range map[string]string{first: one, second: other} {
		p := open(t, browser, address, view{"light", 1440})
		p.await("it is live", isLive)
		p.await("both workers are there, each with two partitions",
			`[...document.querySelectorAll("#worker-table tbody tr")].map(r => r.cells[2].textContent).join() === "2,2"`)
		p.await("all partitions are there, two of each worker", `(() => {
			const rows = [...document.querySelectorAll("#partition-table tbody tr")], of = {};
			for (const r of rows) for (const id of [`+fmt.Sprintf("%q, %q", first[:6], second[:6])+`]) if (r.textContent.includes(id)) of[id] = (of[id] || 0) + 1;
			return rows.length === 4 && Object.values(of).join() === "2,2";
		})()`)
		got, want := "", fmt.Sprintf("%d impressions read, %d selections read, %d payoffs read", n, n-20, n-100)
		assert.Eventually(t, func() bool {
			got = eval[string](p, `[...document.querySelectorAll("#flows h3")].map(h => h.textContent).join(", ")`)
			return got == want
		}, patience, 50*time.Millisecond)
		require.Equal(t, want, got, "the totals are those of both")
		require.Contains(t, eval[string](p, `document.querySelector("#worker-table").textContent`), own[:6]+" (this page)")
		require.True(t, eval[bool](p, `document.getElementById("alone").hidden`))
		p.quiet()
	}
	for _, v := range []view{{"light", 360}, {"dark", 360}, {"light", 1440}, {"dark", 1440}} {
		p := open(t, browser, one, v)
		p.await("it is live", isLive)
		p.await("both workers are there", `document.querySelectorAll("#worker-table tbody tr").length === 2`)
		// Each time that partitions move, their new owner has no ranking to explain until more impressions come.
		explained := `new Promise(found => {
			const end = Date.now() + 2000;
			(function look() {
				const is = document.querySelectorAll("#panel .cards tbody tr").length > 0;
				if (is || Date.now() > end) found(is); else setTimeout(look, 50);
			})();
		})`
		for try := 0; !eval[bool](p, explained); try++ {
			require.Less(t, try, 30, "rankings are explained: %s", eval[string](p, `document.body.textContent`))
			write(t, cfg, cfg.Kafka.Topics.Impressions, fmt.Sprintf("%v-%d-", v, try), 40, impression)
		}
		p.shot("group-" + v.String())
		p.fits()
	}
}
