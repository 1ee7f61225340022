package serve

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

const impression = `{"impression_id":"%s","candidates":[{"item":"a","utility":0.1},{"item":"b","utility":0.7},{"item":"c","utility":0.4}]}`

// patient waits long: these tests are not about the speed of a busy machine.
const patient = "timeout: 10s"

// TestRankSelectPay: records sent over HTTP are ranked, joined and learned from.
func TestRankSelectPay(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		p := newPlace(t, env, 2, patient, "")
		p.work(t)
		r := p.open(t)
		for i := range 12 {
			id := fmt.Sprintf("i/%d", i)
			got := r.rank(t, fmt.Sprintf(impression, id))
			require.False(t, got.Substitute)
			require.Equal(t, id, got.ID)
			require.Equal(t, "feed", got.Learner)
			require.ElementsMatch(t, []string{"a", "b", "c"}, got.Items)
			again := r.rank(t, fmt.Sprintf(impression, id))
			require.Equal(t, got, again, "one impression, one ranking")
			one := r.do(t, http.MethodGet, "/v1/rankings/"+strings.ReplaceAll(id, "/", "%2F"), "")
			require.Equal(t, http.StatusOK, one.Status, string(one.Body))
			require.Equal(t, got, one.ranked(t))
		}
		selections, payoffs := []string{}, []string{}
		for i := range 12 {
			item, payoff := []string{"a", "b", "c"}[i%3], []float64{1, 0.2, 0.1}[i%3]
			selections = append(selections, fmt.Sprintf(`{"impression_id":"i/%d","item":%q}`, i, item))
			payoffs = append(payoffs, fmt.Sprintf(`{"impression_id":"i/%d","payoff":%v}`, i, payoff))
		}
		a := r.post(t, "/v1/selections", "["+strings.Join(selections[1:], ",")+"]")
		require.Equal(t, http.StatusAccepted, a.Status, string(a.Body))
		require.JSONEq(t, `{"written":11}`, string(a.Body))
		require.JSONEq(t, `{"written":1}`, string(r.post(t, "/v1/selections", selections[0]).Body))
		require.JSONEq(t, `{"written":12}`, string(r.post(t, "/v1/payoffs", " ["+strings.Join(payoffs, ",")+"]").Body))

		next := 0
		require.Eventually(t, func() bool { // the least liked pays most, and is shown on top once that is learned
			next++
			got := r.rank(t, fmt.Sprintf(impression, fmt.Sprintf("later-%d", next)))
			return slices.Index(got.Items, "a") == 0
		}, deadline, 20*time.Millisecond)
	})
}

// TestSubstitute: without a worker a page is answered by utility, and later with the ranking, also by a service that has begun since and
// remembers nothing.
func TestSubstitute(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		p := newPlace(t, env, 2, "timeout: 50ms, remember: 1MiB", "")
		r := p.open(t)
		const stamped = `{"impression_id":"i","time":"2026-11-21T10:00:00Z",` +
			`"candidates":[{"item":"a","utility":0.1},{"item":"b","utility":0.7},{"item":"c","utility":0.4}]}`
		for range 5 {
			got := r.rank(t, stamped)
			require.True(t, got.Substitute)
			require.Equal(t, []string{"b", "c", "a"}, got.Items)
			require.Nil(t, got.Decision)
		}
		require.Equal(t, 1, strings.Count(p.log.String(), "without their rankings"), "a line for the cause, not for the request:\n%s", p.log.String())
		require.Equal(t, http.StatusNotFound, r.do(t, http.MethodGet, "/v1/rankings/i", "").Status)
		stop := p.work(t)
		var got ranked
		require.Eventually(t, func() bool { got = r.rank(t, stamped); return !got.Substitute }, deadline, 10*time.Millisecond)
		require.EqualValues(t, 0, got.Decision.Offset, "it was written once")
		require.Equal(t, http.StatusAccepted, r.post(t, "/v1/selections", `{"impression_id":"i","item":"b","shown":"utility"}`).Status)
		stop()
		r.stop()

		r = p.open(t)
		require.Equal(t, got, r.rank(t, stamped), "a new service knows the rankings there are")
		require.Equal(t, "urn:ranker-worker:problem:other-candidates", r.post(t, "/v1/rank", fmt.Sprintf(
			`{"impression_id":"i","candidates":[{"item":%q,"utility":1}]}`, "x")).problem(t).Type)
	})
}

// TestForgotten: a ranking that is not remembered any more is found in the log by the time of its impression.
func TestForgotten(t *testing.T) {
	p := newPlace(t, testenv.Embedded(t), 1, "timeout: 10s, remember: 1MiB", "")
	p.work(t)
	r := p.open(t)
	at := time.Now().UTC().Format(time.RFC3339Nano)
	stamped := func(id string) string {
		return fmt.Sprintf(`{"impression_id":%q,"time":%q,"candidates":[{"item":"a","utility":0.1},{"item":"b","utility":0.7}]}`, id, at)
	}
	first := r.rank(t, stamped("first"))
	r.fill(t)
	missing := r.do(t, http.MethodGet, "/v1/rankings/first", "")
	require.Equal(t, http.StatusNotFound, missing.Status, "it must have been forgotten: %s", missing.Body)
	found := r.do(t, http.MethodGet, "/v1/rankings/first?time="+at, "")
	require.Equal(t, http.StatusOK, found.Status, string(found.Body))
	require.Equal(t, first, found.ranked(t))
	require.Equal(t, first, r.rank(t, stamped("first")), "no worker ranks it again, and it is answered all the same")
	require.Equal(t, http.StatusNotFound, r.do(t, http.MethodGet, "/v1/rankings/nobody?time="+at, "").Status)
	require.Equal(t, "urn:ranker-worker:problem:faulty-time", r.do(t, http.MethodGet, "/v1/rankings/nobody?time=now", "").problem(t).Type)
}

// fill makes a service that remembers 1 MiB drop its earlier rankings.
func (r *running) fill(t *testing.T) {
	t.Helper()
	long := strings.Repeat("x", 1000)
	for i := range 60 { // each ranking takes some 21 kB
		var candidates []string
		for k := range 20 {
			candidates = append(candidates, fmt.Sprintf(`{"item":"%d-%s","utility":1}`, k, long))
		}
		r.rank(t, fmt.Sprintf(`{"impression_id":"filler-%d","candidates":[%s]}`, i, strings.Join(candidates, ",")))
	}
}

// TestTogether: the same impression, asked for by many at once, is written once.
func TestTogether(t *testing.T) {
	p := newPlace(t, testenv.Embedded(t), 3, patient, "")
	p.work(t)
	r := p.open(t)
	var wg sync.WaitGroup
	answers := make([]reply, 50)
	for i := range answers {
		wg.Go(func() { answers[i] = r.post(t, "/v1/rank", fmt.Sprintf(impression, fmt.Sprintf("i-%d", i%5))) })
	}
	wg.Wait()
	for i, a := range answers {
		require.Equal(t, string(answers[i%5].Body), string(a.Body))
		require.False(t, a.ranked(t).Substitute)
	}
}

// TestFaults: a faulty record is refused as by a worker, with the field, and not written.
func TestFaults(t *testing.T) {
	p := newPlace(t, testenv.Embedded(t), 1, patient+", max_body_bytes: 4KiB", "")
	r := p.open(t)
	for _, c := range []struct {
		path, body       string
		status           int
		kind             string
		reason, pointers string
	}{
		{"/v1/rank", `{`, 422, "faulty-record", "malformed_json", "#"},
		{"/v1/rank", ``, 422, "faulty-record", "malformed_json", "#"},
		{"/v1/rank", `[]`, 422, "faulty-record", "wrong_type", "#"},
		{"/v1/rank", `{"impression_id":"i"}`, 422, "faulty-record", "no_candidates", "#/candidates"},
		{"/v1/rank", `{"impression_id":"i","candidates":[{"item":"a"},{"item":"a"}]}`, 422, "faulty-record", "duplicate_item", "#/candidates/1/item"},
		{"/v1/rank", `{"impression_id":"i","candidates":[{"item":"a"}]}`, 422, "faulty-record", "no_utilities", "#/candidates/0/utility"},
		{"/v1/rank", `{"impression_id":"i","learner":"x","candidates":[{"item":"a","utility":1}]}`, 422, "faulty-record", "unknown_learner", "#/learner"},
		{"/v1/selections", `{"impression_id":"i"}`, 422, "faulty-record", "missing_item", "#/item"},
		{"/v1/selections", `[{"impression_id":"i","item":"a","shown":"utility"},{"impression_id":"i","item":"a","shown":"x"}]`, 422, "faulty-record",
			"wrong_type", "#/1/shown"},
		{"/v1/payoffs", `[{"impression_id":"i","payoff":1},{"impression_id":"i"},{"impression_id":"","payoff":1}]`, 422, "faulty-record",
			"missing_payoff missing_impression_id", "#/1/payoff #/2/impression_id"},
		{"/v1/payoffs", `[{"impression_id":"i","payoff":1}`, 422, "faulty-record", "malformed_json", "#"},
		{"/v1/payoffs", strings.Repeat(" ", 5000), 413, "too-large", "", ""},
		{"/v1/payoffs", "[" + strings.Repeat("1,", 1000) + "1]", 413, "too-large", "", ""},
		{"/v1/nothing", `{}`, 404, "no-such-path", "", ""},
	} {
		a := r.post(t, c.path, c.body)
		require.Equal(t, c.status, a.Status, "%s %.80s: %s", c.path, c.body, a.Body)
		got := a.problem(t)
		require.Equal(t, "urn:ranker-worker:problem:"+c.kind, got.Type)
		require.NotEmpty(t, got.Title)
		var reasons, pointers []string
		for _, e := range got.Errors {
			reasons, pointers = append(reasons, e.Reason), append(pointers, e.Pointer)
			require.NotEmpty(t, e.Detail)
		}
		require.Equal(t, c.reason, strings.Join(reasons, " "))
		require.Equal(t, c.pointers, strings.Join(pointers, " "))
	}
	a := r.do(t, http.MethodGet, "/v1/rank", "")
	require.Equal(t, http.StatusMethodNotAllowed, a.Status)
	require.Equal(t, "POST", a.Header.Get("Allow"))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+"/v1/payoffs", strings.NewReader(`{"impression_id":"i","payoff":1}`))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "text/plain") // as a page of another origin may send it without being asked
	require.Equal(t, "urn:ranker-worker:problem:not-json", r.send(t, req).problem(t).Type)
	req, err = http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+"/v1/rankings/i", nil)
	require.NoError(t, err)
	req.Header.Set("Origin", "http://site.example")
	require.Equal(t, "urn:ranker-worker:problem:foreign", r.send(t, req).problem(t).Type)
	require.Equal(t, http.StatusOK, r.do(t, http.MethodGet, "/livez", "").Status)
	require.Equal(t, http.StatusOK, r.do(t, http.MethodGet, "/readyz", "").Status)
	require.Contains(t, string(r.do(t, http.MethodGet, "/metrics", "").Body), `ranker_serve_requests_total{path="/v1/rank",status="422"} 7`)
}

// TestTokens: who has no token is turned away, tokens come and go with their file, and each may so much.
func TestTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	require.NoError(t, os.WriteFile(file, []byte("shop 0123456789abcdef\nother fedcba9876543210\n"), 0o600))
	p := newPlace(t, testenv.Embedded(t), 1, fmt.Sprintf("%s, tokens_file: %q, rate: 1000", patient, file), "")
	p.tokenRate = 3
	r := p.open(t)
	const payoff = `{"impression_id":"i","payoff":1}`
	for _, token := range []string{"", "0123456789abcde", "shop"} {
		r.token = token
		a := r.post(t, "/v1/payoffs", payoff)
		require.Equal(t, http.StatusUnauthorized, a.Status, string(a.Body))
		require.Equal(t, "Bearer", a.Header.Get("WWW-Authenticate"))
		require.Equal(t, http.StatusUnauthorized, r.do(t, http.MethodGet, "/metrics", "").Status)
		require.Equal(t, http.StatusOK, r.do(t, http.MethodGet, "/livez", "").Status)
	}
	r.token = "0123456789abcdef"
	statuses := map[int]int{}
	for range 20 {
		statuses[r.post(t, "/v1/payoffs", payoff).Status]++
	}
	require.GreaterOrEqual(t, statuses[http.StatusAccepted], 3)
	require.Positive(t, statuses[http.StatusTooManyRequests], "%v", statuses)
	r.token = "fedcba9876543210"
	require.Equal(t, http.StatusAccepted, r.post(t, "/v1/payoffs", payoff).Status, "one is not held up by another")

	require.NoError(t, os.WriteFile(file, []byte("shop 00112233445566778899\n"), 0o600))
	r.service.Reload()
	require.Equal(t, http.StatusUnauthorized, r.post(t, "/v1/payoffs", payoff).Status)
	r.token = "00112233445566778899"
	require.Equal(t, http.StatusAccepted, r.post(t, "/v1/payoffs", payoff).Status)
	require.NoError(t, os.Remove(file))
	r.service.Reload()
	require.Equal(t, http.StatusAccepted, r.post(t, "/v1/payoffs", payoff).Status, "without the file what was read before counts")
	require.NotContains(t, p.log.String(), "00112233445566778899")
}

// wait posts an impression, again where there is no room for it, to a service with room for one request.
func (r *running) wait(t *testing.T) (answer chan reply) {
	answer = make(chan reply)
	go func() {
		for {
			if a := r.post(t, "/v1/rank", fmt.Sprintf(impression, "i")); a.Status != http.StatusServiceUnavailable {
				answer <- a
				return
			}
		}
	}()
	return answer
}

// TestCrowd: more requests at once than are allowed are refused, with a time to retry.
func TestCrowd(t *testing.T) {
	p := newPlace(t, testenv.Embedded(t), 1, "timeout: 10s, concurrency: 1", "")
	r := p.open(t)
	waiting := r.wait(t)
	require.Eventually(t, func() bool {
		a := r.post(t, "/v1/payoffs", `{"impression_id":"i","payoff":1}`)
		return a.Status == http.StatusServiceUnavailable && a.Header.Get("Retry-After") != "" &&
			a.problem(t).Type == "urn:ranker-worker:problem:busy"
	}, deadline, time.Millisecond)
	p.work(t)
	require.Equal(t, http.StatusOK, (<-waiting).Status)
}

// TestNoKafka: a service whose Kafka is away answers pages all the same, says that it is not ready, and refuses records that would be lost.
func TestNoKafka(t *testing.T) {
	env := testenv.Embedded(t)
	p := newPlace(t, env, 1, "timeout: 20ms", "")
	env.Fake.Close()
	r := p.openUnready(t)
	require.True(t, r.rank(t, fmt.Sprintf(impression, "i")).Substitute)
	a := r.post(t, "/v1/payoffs", `{"impression_id":"i","payoff":1}`)
	require.Equal(t, "urn:ranker-worker:problem:not-written", a.problem(t).Type)
	require.Equal(t, http.StatusServiceUnavailable, r.do(t, http.MethodGet, "/readyz", "").Status)
}

// TestDrain: a service that ends answers accepted requests, and leaves nothing running.
func TestDrain(t *testing.T) {
	p := newPlace(t, testenv.Embedded(t), 2, "timeout: 10s, concurrency: 1", "")
	before := goleak.IgnoreCurrent()
	r := p.open(t)
	waiting := r.wait(t)
	require.Eventually(t, func() bool { return r.post(t, "/v1/payoffs", "{}").Status == http.StatusServiceUnavailable }, deadline, time.Millisecond)
	stopWork := p.work(t)
	ended := make(chan struct{})
	go func() { r.stop(); close(ended) }()
	require.Equal(t, http.StatusOK, (<-waiting).Status)
	<-ended
	stopWork()
	goleak.VerifyNone(t, before)
}
