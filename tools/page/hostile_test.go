package page

import (
	"log/slog"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/dashboard"
	"github.com/ranker-worker/ranker-worker/policy"
	"github.com/ranker-worker/ranker-worker/stream"
	"github.com/ranker-worker/ranker-worker/stream/partition"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// hostile is a name that would do harm, were it taken for HTML. It also turns the direction of the text behind it.
const hostile = `<img src=x onerror="window.harmed=1"><script>window.harmed=1</script>` + "\u202e"

// named is a worker of which everything that can come from outside is hostile.
type named struct{}

func (named) ID() string                 { return hostile }
func (named) Group() string              { return hostile }
func (named) LookAgain(int32, int) int32 { return 0 }
func (named) Now() int64                 { return time.Now().UnixMilli() }
func (named) Letters() []stream.Letter {
	return []stream.Letter{{Topic: "payoffs", Reason: hostile, Detail: hostile}}
}
func (named) Totals() stream.Totals {
	return stream.Totals{Latencies: make([]int64, len(stream.LatencyBounds())+1)}
}
func (named) Learners() []partition.LearnerConfig {
	return []partition.LearnerConfig{{Name: hostile, PolicyName: hostile, DelayName: hostile, PayoffMax: 1}}
}

func (named) Seen() map[int32]stream.Observed {
	e := policy.Evidence{W: 9, R: 3, Q: 2}
	look := &partition.Sample{Learners: []partition.LearnerSample{{Name: hostile, Rule: hostile, First: 1,
		Contextual:   delay.ContextualStatus{Known: true, Payoffs: 9, Deviations: [delay.Causes]float64{0.25, 0.5, -1, 0.125, -1}},
		Coefficients: []delay.Coefficient{{Name: "intercept", Value: 0.5}, {Name: hostile, Value: -0.25, SD: 0.5}},
		Items:        []partition.ItemSample{{Name: hostile, First: 1, Evidence: e}},
		Ranking:      &partition.RankingSample{ID: hostile, Time: time.Now().UnixMilli(), Candidates: 2, Shown: []partition.ShownSample{{Name: hostile, Rank: 1, Evidence: e}, {Name: hostile, Leader: 0}}}}}}
	return map[int32]stream.Observed{0: {Status: &task.Status{Phase: task.Running}, Waits: hostile, Look: look}}
}

func (named) Outside() string { return "" }

type namedCounters struct{ named }

func (namedCounters) Learners() map[string]stream.LearnerTotal { return nil }

// TestNamesAreText: whatever stands in a name, an id or an error is shown, and nothing else.
func TestNamesAreText(t *testing.T) {
	browser := chromium(t)
	board := dashboard.New(dashboard.Options{Source: named{}, Counters: namedCounters{}, Version: hostile, Remember: 3_600_000, Logger: slog.New(slog.DiscardHandler)})
	go board.Run(t.Context())
	server := httptest.NewServer(board.Handler())
	t.Cleanup(server.Close)
	p := open(t, browser, server.URL+"/", view{"light", 360})
	p.await("it is live", isLive)
	p.await("the names are there", `document.querySelectorAll("#panel .cards tbody tr").length === 2`)
	require.Zero(t, eval[int](p, `document.querySelectorAll("main img, main script").length`))
	require.True(t, eval[bool](p, `window.harmed === undefined`))
	require.Contains(t, eval[string](p, `document.querySelector("article.learner .beside > div:last-child tbody th").textContent`), "<img")
	require.Contains(t, eval[string](p, `document.querySelector(".depends bdi").textContent`), "<img")
	require.Contains(t, eval[string](p, `document.querySelector(".depends").textContent`), "−0.25")
	p.do(chromedp.Evaluate[chromedp.Void](`location.hash = new URLSearchParams({find: ` + "`" + hostile + "`" + `.slice(0, 48)})`))
	p.await("it was searched for", `document.getElementById("found-name").textContent.includes("<img")`)
	require.Zero(t, eval[int](p, `document.querySelectorAll("main img, main script").length`))
	require.NotZero(t, eval[int](p, `document.querySelectorAll("#found-commands code").length`))
	p.do(chromedp.Evaluate[chromedp.Void](`location.hash = new URLSearchParams({find: "a\u001b[8m"})`))
	p.await("no command has control characters", `document.getElementById("found-name").textContent.startsWith("a") && !document.querySelector("#found-commands code")`)
	p.fits()
	p.quiet()
}
