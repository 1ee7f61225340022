package page

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/demo"
)

// play plays a demo until stop is called, and gives the address of its page.
func play(t *testing.T) (address string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	addresses, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		_, err := demo.Run(ctx, demo.Options{Impressions: 1_000_000, Seed: 1, Logger: slog.New(slog.DiscardHandler),
			Page: func(address string) { addresses <- "http://" + address + "/" }})
		ended <- err
	}()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			require.NoError(t, err)
		}
	}
	t.Cleanup(stop)
	select {
	case address = <-addresses:
	case err := <-ended:
		ended <- err
		require.NoError(t, err)
	}
	return address, stop
}

const (
	isLive   = `document.getElementById("state").textContent === "live"`
	ended    = `Number(document.querySelector("#flows h3")?.textContent.replace(/\D/g, ""))`
	drawn    = `document.querySelectorAll(".plot canvas").length === 3`
	learners = `document.querySelectorAll("[role=tab]").length === 2`
	learner  = `document.querySelector("article.learner:not([hidden])")?.getAttribute("aria-label")`
)

// TestThePage shows a demo: to everybody, in both themes, on a phone and on a desk.
func TestThePage(t *testing.T) {
	browser := chromium(t)
	address, stop := play(t)
	for _, v := range views() {
		t.Run(v.String(), func(t *testing.T) {
			p := open(t, browser, address, v)
			p.await("it is live", isLive)
			p.await("both learners are there", learners)
			p.await("charts are drawn", drawn)
			p.await("the sentence says how much it earns", `/^feed earns [\d.]+ % more than ranking by clicks: \+[\d.]+\s±\s[\d.]+ per impression, [\d,]+ impressions, /.test(document.getElementById("sentence").textContent)`)
			p.await("a payoff per impression is known, and what ranking by clicks would have brought",
				`[...document.querySelectorAll(".of-policy .value, .of-utility .value")].filter(e => /^0\.\d+$/.test(e.textContent)).length === 2`)
			p.await("so are the share of impressions with a selection, and the payoff per selection", `["Impressions with a selection", "Payoff per selection"].every(
				name => [...document.querySelectorAll("#panel dt")].filter(e => e.textContent === name && /^[\d.]+( %)?$/.test(e.nextSibling.textContent)).length === 1)`)
			p.await("rankings are explained", `document.querySelectorAll("#panel .cards tbody tr").length >= 6`)
			p.await("leaders are marked, and others grey", `document.querySelectorAll("tr.leads .mark").length > 0 && document.querySelectorAll("tr.follows").length > 0`)
			p.await("lines have been drawn", `document.querySelectorAll("#chart-rankings .plot")[0].getAttribute("aria-label").includes("per second")`)
			p.shot("demo-" + v.String())
			p.fits()
			p.accessible()
			p.quiet()
		})
	}

	p := open(t, browser, address, view{"light", 1024})
	p.await("it is live", isLive)
	require.Equal(t, 3, eval[int](p, `document.querySelectorAll("#flows .flow").length`))
	for _, width := range []int64{1024, 1100, 1280} {
		p.do(chromedp.EmulateViewport(width, 900))
		require.Empty(t, eval[string](p, `(() => {
			for (const mark of document.querySelectorAll("#panel .range b")) mark.style.left = "100%"; // a mean at the end of its scale
			return [...document.querySelectorAll("#panel .scroll")].filter(e => e.scrollWidth > e.clientWidth).map(e => e.scrollWidth + " of " + e.clientWidth + ": " + e.innerText).join();
		})()`), "the learner's tables are shown in full at %d px", width)
	}

	t.Run("changes without being loaded again", func(t *testing.T) {
		p.do(chromedp.Evaluate[chromedp.Void](`window.marked = ` + ended))
		p.await("more impressions have been read", ended+` > window.marked`)
		require.Equal(t, 1, eval[int](p, `performance.getEntriesByType("navigation").length`))
	})
	t.Run("keyboard", func(t *testing.T) {
		p.do(chromedp.KeyEvent(kb.Tab))
		require.Equal(t, "skip", eval[string](p, `document.activeElement.className`))
		require.Positive(t, eval[float64](p, `document.activeElement.getBoundingClientRect().left`), "it is seen while it has the focus")
		p.do(chromedp.KeyEvent(kb.Tab))
		require.Equal(t, "pause", eval[string](p, `document.activeElement.id`))
		require.NotEqual(t, "0px", eval[string](p, `getComputedStyle(document.activeElement).outlineWidth`), "the focus is seen")
		p.do(chromedp.KeyEvent(" "))
		p.await("it pauses", `document.getElementById("state").textContent === "paused"`)
		require.Equal(t, "true", eval[string](p, `document.activeElement.getAttribute("aria-pressed")`))
		p.do(chromedp.KeyEvent(kb.Enter))
		p.await("it goes on", isLive)
	})
	t.Run("charts as tables", func(t *testing.T) {
		p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#chart-rankings summary").click()`))
		p.await("the figures of the chart", `document.querySelectorAll("#chart-rankings tbody tr").length > 1`)
	})
	p.quiet()
	t.Run("the worker ends", func(t *testing.T) {
		stop()
		p.await("it is said", `document.getElementById("state").textContent.includes("does not answer")`)
	})
}

// TestTheChartLibraryIsTheOneOfNPM: the shipped file is, byte for byte, the one that the lock file names.
func TestTheChartLibraryIsTheOneOfNPM(t *testing.T) {
	if os.Getenv("RANKER_TEST_SHORT") == "1" {
		t.Skip("left out, because RANKER_TEST_SHORT=1 asks for a run without what make tools installs")
	}
	for shipped, published := range map[string][]string{"uPlot.iife.min.js": {"dist", "uPlot.iife.min.js"}, "uPlot.min.css": {"dist", "uPlot.min.css"},
		"uPlot.LICENSE": {"LICENSE"}} {
		ours, err := os.ReadFile(filepath.Join("..", "..", "internal", "dashboard", "assets", shipped))
		require.NoError(t, err)
		require.Equal(t, string(npm(t, append([]string{"uplot"}, published...)...)), string(ours), shipped)
	}
}
