package page

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

const (
	sentence  = `document.getElementById("sentence").textContent`
	unfolded  = `document.querySelectorAll("details").forEach(d => d.open = true)`
	chosenTab = `document.querySelector("[role=tab][aria-selected=true]").textContent`
)

// views are how groups are looked at. With RANKER_TEST_SHOTS there are more, for people.
func views() []view {
	if os.Getenv("RANKER_TEST_SHOTS") == "" {
		return []view{{"light", 360}, {"dark", 390}, {"light", 768}, {"dark", 1440}}
	}
	var all []view
	for _, width := range []int64{360, 390, 768, 1440} {
		all = append(all, view{"light", width}, view{"dark", width})
	}
	return all
}

// TestGroups: each says in one sentence how it does, and fits a phone, a tablet and a desk with all of its parts unfolded.
func TestGroups(t *testing.T) {
	browser := chromium(t)
	for _, c := range []struct {
		group *group
		says  string
		holds []string // in the page's text
	}{
		{emptyGroup(), "feed has ranked no impression yet.", []string{"0 impressions read", "No impression was ranked"}},
		{manyLearners(), "shelf-1 earns 70 % more than ranking by clicks: +", []string{"too early"}},
		{experimenting(), "feed earns 70 % more than ranking by clicks: +", []string{"feed earns 24 % more than control: +0.060 a unit",
			"Too early: first figure by ", "In the end: open, at least −0.250, at most +0.500, about +0.125.", "The shares do not fit", "The shares fit", "feed has no bounds: 1100 and 400 units"}},
		{stoppedGroup(), "feed earns 70 % more than ranking by clicks: +", []string{"Partition 2 has stopped: the group has run before", "2 of 4", "malformed_json"}},
	} {
		t.Run(c.group.name, func(t *testing.T) {
			address := show(t, c.group)
			for _, v := range views() {
				p := open(t, browser, address, v)
				p.await("it is live", isLive)
				p.await("the sentence", sentence+`.startsWith("`+c.says+`")`)
				for _, text := range c.holds {
					p.await(text, `document.querySelector("main").textContent.includes("`+text+`")`)
				}
				p.await("a curve, where there is a value", fmt.Sprintf(`document.querySelector("article.learner:not([hidden]) .chart").hidden === %t`, c.group.name == "empty"))
				p.shot(c.group.name + "-" + v.String())
				p.do(chromedp.Evaluate[chromedp.Void](unfolded))
				p.fits()
				if v.width == 360 || v.width == 1440 {
					p.accessible()
				}
				p.quiet()
			}
		})
	}
}

// TestSentences: too early with a date, no difference yet, and a loss are said as such.
func TestSentences(t *testing.T) {
	p := open(t, chromium(t), show(t, manyLearners()), view{"light", 1024})
	p.await("it is live", isLive)
	for learner, says := range map[string]string{
		"shelf-4":  `^Too early to say how much shelf-4 earns: many payoffs are still to come, each within 30 days\. The first figure comes by \d+ [A-Z][a-z]+( \d+)?\.$`,
		"shelf-5":  `^Too early to say how much shelf-5 earns: more than a third of the impressions wait for a selection, each 60 min at most\. The first figure comes by `,
		"shelf-8":  `^No difference yet between shelf-8 and ranking by clicks: [+−][\d.]+\s±\s[\d.]+ per impression, [\d,]+ impressions, \d+ (seconds?|minutes)\.$`,
		"shelf-10": `^shelf-10 earns 20 % less than ranking by clicks: −[\d.]+\s±\s[\d.]+ per impression, `,
		"shelf-11": `^shelf-11 ranks by clicks, and earns [\d.]+\s±\s[\d.]+ per impression: `,
	} {
		p.do(chromedp.Evaluate[chromedp.Void](`location.hash = "learner=` + learner + `"`))
		p.await(learner, `new RegExp(`+"String.raw`"+says+"`"+`).test(`+sentence+`)`)
	}
	p.quiet()
}

// TestWithoutTraffic: twelve minutes after the last impression the page says so, in place of "live", and speaks of the figures as past ones.
func TestWithoutTraffic(t *testing.T) {
	worker, err := url.Parse(show(t, manyLearners()))
	require.NoError(t, err)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(worker)
			r.Out.Header.Del("Accept-Encoding")
		},
		ModifyResponse: func(r *http.Response) error {
			if r.Request.URL.Path != "/page/live.json" {
				return nil
			}
			var page map[string]any
			if err := json.NewDecoder(r.Body).Decode(&page); err != nil {
				return err
			}
			page["rates"] = map[string]any{"impressions": 0, "selections": 0, "payoffs": 0, "rankings": 0}
			page["seconds"] = 1500
			for _, l := range page["learners"].([]any) {
				l.(map[string]any)["last_at"] = page["now"].(float64) - 12*60_000
			}
			body, err := json.Marshal(page)
			r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			r.Header.Set("Content-Length", strconv.Itoa(len(body)))
			return err
		}})
	t.Cleanup(proxy.Close)
	browser := chromium(t)
	for _, v := range views() {
		p := open(t, browser, proxy.URL+"/", v)
		p.await("it is not live", `document.getElementById("state").textContent === "no traffic"`)
		require.Regexp(t, `^no impression since `, eval[string](p, `document.getElementById("asof").textContent`))
		p.await("the sentence speaks of the past", `/^shelf-1 earned 70 % more than ranking by clicks: .* impressions, until (\d+ \w+, )?[\d:]+\.$/.test(`+sentence+`)`)
		require.Regexp(t, `^shelf-1 has ranked no impression since .*, for 12 minutes\. Its figures change only as payoffs come and deadlines pass\. `+
			`Its unpaid selections \([\d,]+\) count by their age at the newest payoff, until their deadlines\.$`, eval[string](p, `document.getElementById("idle").textContent`))
		p.shot("without-traffic-" + v.String())
		p.fits()
		if v.width == 360 || v.width == 1440 {
			p.accessible()
		}
		p.quiet()
	}
}

// TestTabs: a learner is a tab, which the keyboard reaches as in any list of tabs; only the chosen one's panel is shown.
func TestTabs(t *testing.T) {
	p := open(t, chromium(t), show(t, manyLearners()), view{"light", 1024})
	p.await("there is a tab for each learner", `document.querySelectorAll("[role=tab]").length === 16`)
	require.Equal(t, 1, eval[int](p, `document.querySelectorAll("[role=tab][tabindex='0']").length`), "one of them is in the order of Tab")
	p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("[role=tab][tabindex='0']").focus()`))
	for _, step := range []struct{ key, learner string }{{kb.ArrowRight, "shelf-2"}, {kb.End, "shelf-16"}, {kb.ArrowRight, "shelf-1"}, {kb.ArrowLeft, "shelf-16"}, {kb.Home, "shelf-1"}} {
		p.do(chromedp.KeyEvent(step.key))
		require.Equal(t, "learner "+step.learner, eval[string](p, learner))
		require.True(t, eval[bool](p, `document.activeElement.getAttribute("aria-selected") === "true"`))
		require.Contains(t, eval[string](p, chosenTab), step.learner)
		require.Contains(t, eval[string](p, sentence), step.learner)
		require.Equal(t, 1, eval[int](p, `document.querySelectorAll("#panel > article:not([hidden])").length`))
	}
	p.do(chromedp.Evaluate[chromedp.Void](`history.back()`))
	p.await("Back goes to the tab before", learner+` === "learner shelf-16"`)
	p.quiet()
}

// TestSearch: an impression's id gives its ranking with reasons, an item's name its row and history, and for the rest a command to copy.
func TestSearch(t *testing.T) {
	p := open(t, chromium(t), show(t, manyLearners()), view{"light", 1024})
	p.await("it is live", isLive)
	find := func(name string) {
		p.do(chromedp.Evaluate[chromedp.Void](`document.getElementById("find").focus()`), chromedp.Evaluate[chromedp.Void](`document.getElementById("find").value = ""`))
		p.do(chromedp.KeyEvent(name), chromedp.KeyEvent(kb.Enter))
		p.await(name, `document.getElementById("found-name").textContent === `+"`"+name+"`")
	}
	find("i-shelf-2-1")
	p.await("the ranking, with reasons", `document.querySelector("#found-rankings").textContent.includes("hidden by item-")`)
	require.Contains(t, eval[string](p, `document.querySelector("#found-commands").textContent`), "ranker-worker explain i-shelf-2-1 --config worker.yaml")
	require.Equal(t, "found-title", eval[string](p, `document.activeElement.id`), "a screen reader is led to the answer")

	find("item-02")
	p.await("the item, once for each learner", `document.querySelectorAll("#found-items article").length === 16`)
	p.await("its history", `document.querySelector("#found-items .plot canvas") !== null`)
	require.Empty(t, eval[string](p, `document.querySelector("#found-rankings").textContent`))
	require.Contains(t, eval[string](p, `document.querySelector("#found-commands").textContent`), "ranker-worker state inspect --config worker.yaml --learner=shelf-2 --candidates=item-02:0")

	find("it's not here")
	p.await("that it is not known", `document.getElementById("found-summary").textContent.includes("does not know it")`)
	require.Contains(t, eval[string](p, `document.querySelector("#found-commands").textContent`), `ranker-worker explain 'it'\''s not here' --config worker.yaml`)
	p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#found-commands button").click()`))
	p.await("it is copied", `document.querySelector("#found-commands button").textContent === "Copied"`)

	p.do(chromedp.Evaluate[chromedp.Void](`document.getElementById("found-close").click()`))
	p.await("it is closed", `document.getElementById("found").hidden && location.hash === ""`)
	p.quiet()
}

// TestPermalinks: the address holds the learner, the search, the time range and the place, and leads another reader there.
func TestPermalinks(t *testing.T) {
	browser, address := chromium(t), show(t, manyLearners())
	p := open(t, browser, address, view{"light", 390})
	p.await("it is live", isLive)
	p.do(chromedp.Evaluate[chromedp.Void](`document.querySelectorAll("[role=tab]")[6].click()`))
	p.do(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll("#panel article:not([hidden]) tbody a")].find(a => a.textContent === "item-01").click()`))
	p.await("the item is found", `document.querySelectorAll("#found-items article").length === 16`)
	p.do(chromedp.Evaluate[chromedp.Void](`{ const r = document.getElementById("range"); r.value = "60"; r.dispatchEvent(new Event("change")); }`))
	p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("nav a[href='#account']").click()`))
	link := eval[string](p, `location.href`)
	require.Equal(t, address+"#learner=shelf-7&find=item-01&range=60&at=account", link)
	p.quiet()

	other := open(t, browser, link, view{"light", 390})
	other.origin = strings.TrimSuffix(address, "/")
	other.await("the learner", learner+` === "learner shelf-7"`)
	other.await("the search", `document.getElementById("found-name").textContent === "item-01" && document.querySelectorAll("#found-items article").length === 16`)
	require.Equal(t, "60", eval[string](other, `document.getElementById("range").value`))
	other.await("the place, unfolded", `document.querySelector("#account details").open && document.activeElement.id === "account"`)
	require.False(t, eval[bool](other, `document.querySelector("#letters details").open`), "others are folded on a phone")
	other.quiet()
}

// TestBehindALoginProxy, below a path of the proxy: the page works, says when the login has ended, and works again once it is loaded again.
func TestBehindALoginProxy(t *testing.T) {
	worker, err := url.Parse(show(t, manyLearners()))
	require.NoError(t, err)
	var login atomic.Int64 // the cookie that is taken
	forward := http.StripPrefix("/ranker", httputil.NewSingleHostReverseProxy(worker))
	mux := http.NewServeMux()
	mux.HandleFunc("/login", func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "login", Value: strconv.FormatInt(login.Load(), 10), Path: "/"})
		http.Redirect(w, r, "/ranker/", http.StatusFound)
	})
	mux.HandleFunc("/ranker/", func(w http.ResponseWriter, r *http.Request) {
		if c, err := r.Cookie("login"); err != nil || c.Value != strconv.FormatInt(login.Load(), 10) {
			http.Redirect(w, r, "/login", http.StatusFound)
			return
		}
		forward.ServeHTTP(w, r)
	})
	proxy := httptest.NewServer(mux)
	t.Cleanup(proxy.Close)

	p := open(t, chromium(t), proxy.URL+"/ranker/", view{"light", 1024})
	p.await("it is live", isLive)
	p.await("charts are drawn", `document.querySelectorAll(".plot canvas").length >= 1`)
	login.Add(1)
	p.await("it says so", `document.getElementById("state").textContent.startsWith("the login has ended: load this page again; figures are as of ")`)
	p.do(chromedp.Navigate(proxy.URL + "/ranker/"))
	p.await("it is live again", isLive)
	p.quiet()
}
