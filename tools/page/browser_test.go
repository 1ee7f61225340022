package page

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	realkafka "github.com/ranker-worker/ranker-worker/internal/test/testenv/kafka"
)

// patience bounds each wait for the page.
const patience = time.Minute

// errBrowser says how to get a browser.
var errBrowser = errors.New("no Chromium was found: make tools, or apt-get install chromium")

// view is how a page is looked at.
type view struct {
	theme string // light or dark
	width int64
}

func (v view) String() string { return fmt.Sprintf("%s-%d", v.theme, v.width) }

// chromium starts a browser, which ends with the test.
func chromium(t *testing.T) context.Context {
	t.Helper()
	if testenv.Short() {
		t.Skipf("left out, because %s=1 asks for a run without real components: needs a real browser", testenv.ShortEnv)
	}
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	require.NotEmpty(t, path, errBrowser)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.UserDataDir(t.TempDir()))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, closeBrowser := chromedp.NewContext(ctx)
	t.Cleanup(closeBrowser)
	require.NoError(t, chromedp.Do(ctx))
	return ctx
}

// tab is an open page, with its messages and requests.
type tab struct {
	*testing.T
	ctx context.Context

	mu     sync.Mutex
	said   []string // errors of the console, exceptions, refusals
	asked  []string // addresses
	origin string
}

// open opens an address in a tab of its own.
func open(t *testing.T, browser context.Context, address string, v view) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser)
	t.Cleanup(cancel)
	p := &tab{T: t, ctx: ctx, origin: strings.TrimSuffix(address, "/")}
	require.NoError(t, chromedp.Listen(ctx, p.listen))
	height := int64(900)
	if v.width < 500 {
		height = 740
	}
	_, err := chromedp.Call(ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err)
	_, err = chromedp.Call(ctx, log.Enable, cdp.Empty{})
	require.NoError(t, err)
	_, err = chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: v.theme}}})
	require.NoError(t, err)
	p.do(chromedp.EmulateViewport(v.width, height), chromedp.Navigate(address))
	return p
}

// listen runs in the browser's loop.
func (p *tab) listen(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		p.said = append(p.said, fmt.Sprintf("console.%s: %v", e.Type, e.Args))
	case *runtime.EventExceptionThrown:
		p.said = append(p.said, fmt.Sprintf("exception: %+v", e.ExceptionDetails))
	case *log.EventEntryAdded:
		p.said = append(p.said, fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL))
	case *network.EventRequestWillBeSent:
		p.asked = append(p.asked, e.Request.URL)
	}
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	require.NoError(p, chromedp.Do(ctx, steps...))
}

// await waits until an expression is true in the page.
func (p *tab) await(about, expression string) {
	p.Helper()
	_, err := chromedp.Run(p.ctx, chromedp.Poll[chromedp.Void](expression, chromedp.WithPollingInterval(50*time.Millisecond),
		chromedp.WithPollingTimeout(patience)))
	p.mu.Lock()
	defer p.mu.Unlock()
	require.NoError(p, err, "%s: %s (the page said: %v)", about, expression, p.said)
}

// eval evaluates an expression, or a promise, in the page.
func eval[V any](p *tab, expression string) V {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[V](expression, chromedp.EvalAwaitPromise))
	require.NoError(p, err, "%.200s", expression)
	return v
}

// quiet holds the page to having said nothing, and asked nobody else.
func (p *tab) quiet() {
	p.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(p, p.said)
	require.NotEmpty(p, p.asked)
	origin, err := url.Parse(p.origin)
	require.NoError(p, err)
	for _, a := range p.asked {
		u, err := url.Parse(a)
		require.NoError(p, err)
		require.Equal(p, origin.Host, u.Host, a)
	}
}

// fits holds the page to its width. On a desk nothing but tables, each in a box that can be reached by keyboard, scrolls sideways. On a
// phone nothing does, and no text is cut.
func (p *tab) fits() {
	p.Helper()
	require.Empty(p, eval[[]string](p, `(() => {
		const wide = [], width = document.documentElement.clientWidth;
		if (document.documentElement.scrollWidth > width) wide.push("the page: " + document.documentElement.scrollWidth);
		for (const e of document.querySelectorAll("body *")) {
			const phone = width < 500;
			if (!phone && e.closest(".scroll") && !e.matches(".scroll") || e.matches(".skip") || e.closest("thead, .plot")) continue;
			const box = e.getBoundingClientRect();
			if (box.width > 0 && (box.right > width + 1 || box.left < -1)) wide.push(e.tagName + "." + e.className + ": " + box.left + " to " + box.right);
			if (phone && box.width > 0 && e.scrollWidth > e.clientWidth + 1 && e.clientWidth > 0 && !e.matches("input, select") && !e.closest(".tab")) {
				wide.push(e.tagName + "." + e.className + " is cut: " + e.scrollWidth + " in " + e.clientWidth);
			}
		}
		return wide;
	})()`))
}

// npm is the folder in which make tools installs npm packages for tests.
func npm(t *testing.T, parts ...string) []byte {
	t.Helper()
	cache, err := realkafka.CacheDir()
	require.NoError(t, err)
	b, err := os.ReadFile(filepath.Join(append([]string{cache, "npm", "node_modules"}, parts...)...))
	require.NoError(t, err, "make tools installs it (it needs npm)")
	return b
}

// accessible holds the page to the rules of WCAG 2.2 AA that axe-core can check.
func (p *tab) accessible() {
	p.Helper()
	p.do(chromedp.Evaluate[chromedp.Void](string(npm(p.T, "axe-core", "axe.min.js"))))
	found := eval[struct {
		Passes     int
		Violations []string
	}](p, `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(r => ({
		passes: r.passes.length,
		violations: r.violations.map(v => v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + " " + (n.failureSummary || "")).join(" | ")),
	}))`)
	require.Empty(p, found.Violations)
	require.NotZero(p, found.Passes, "it looked at something")
}

// shot leaves a picture, where that is asked for.
func (p *tab) shot(name string) {
	dir := os.Getenv("RANKER_TEST_SHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	require.NoError(p, err)
	require.NoError(p, os.MkdirAll(dir, 0o755))
	require.NoError(p, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644))
}
