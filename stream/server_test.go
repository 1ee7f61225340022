package stream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func get(t *testing.T, h http.Handler, method, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w.Code, w.Body.String()
}

// TestServer_OnLoopbackTakesOwnNames: a site that has pointed its name to loopback is turned away, and so is a page of another origin.
func TestServer_OnLoopbackTakesOwnNames(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", "0.0.0.0:0"} {
		s, err := NewServerOf(listen, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeText(w, 200, "taken") }), nil, writeText, nil)
		require.NoError(t, err)
		t.Cleanup(func() { _ = s.Shutdown(context.Background()) })
		for _, c := range []struct {
			host, origin string
			status       int
		}{
			{"127.0.0.1:9108", "", 200}, {"localhost:9108", "", 200}, {"LOCALHOST", "", 200}, {"page.localhost", "", 200}, {"[::1]:9108", "", 200}, {"10.0.0.1", "", 200},
			{"", "", 200}, {"site.example:9108", "", 421}, {"localhost.site.example", "", 421}, {"127.0.0.1.site.example", "http://127.0.0.1.site.example", 421},
			{"localhost:9108", "http://localhost:9108", 200}, {"localhost:9108", "http://site.example", 403}, {"localhost:9108", "null", 403},
			{"localhost:9108", "http://localhost:80", 403},
		} {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.Host = c.host
			if c.origin != "" {
				r.Header.Set("Origin", c.origin)
			}
			w := httptest.NewRecorder()
			s.http.Handler.ServeHTTP(w, r)
			if listen == "0.0.0.0:0" {
				c.status = 200
			}
			require.Equal(t, c.status, w.Code, "%s: %+v", listen, c)
		}
	}
}

func TestServerEndpoints(t *testing.T) {
	reg := prometheus.NewRegistry()
	NewMetrics(reg)
	var why []string
	var dead error
	cfg := ServerConfig{Registry: reg, Unready: func() []string { return why }, Dead: func() error { return dead },
		Version: map[string]string{"version": "v1"}}
	h := NewHandler(cfg)
	for _, c := range []struct {
		path   string
		status int
		body   string
	}{
		{"/livez", 200, "alive\n"}, {"/readyz", 200, "ready\n"}, {"/version", 200, "{\"version\":\"v1\"}\n"},
		{"/", 200, "ranker-worker: /livez /readyz /metrics /version\n"},
		{"/nothing", 404, "404 page not found\n"}, {"/debug/pprof/", 404, "404 page not found\n"},
	} {
		status, body := get(t, h, http.MethodGet, c.path)
		assert.Equal(t, c.status, status, c.path)
		assert.Equal(t, c.body, body, c.path)
	}
	status, body := get(t, h, http.MethodGet, "/metrics")
	assert.Equal(t, 200, status)
	assert.Contains(t, body, "ranker_rankings_total 0")
	status, _ = get(t, h, http.MethodPost, "/livez")
	assert.Equal(t, http.StatusMethodNotAllowed, status)
	status, _ = get(t, h, http.MethodHead, "/readyz")
	assert.Equal(t, 200, status)

	cfg.Page = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { writeText(w, http.StatusOK, "page: "+r.URL.Path) })
	for _, path := range []string{"/", "/page/live.json"} {
		status, body = get(t, NewHandler(cfg), http.MethodGet, path)
		assert.Equal(t, 200, status)
		assert.Equal(t, "page: "+path+"\n", body)
	}
	status, _ = get(t, NewHandler(cfg), http.MethodPost, "/")
	assert.Equal(t, http.StatusMethodNotAllowed, status)

	why, dead = []string{"partition 3: loading", "the store cannot be written to"}, errors.New("the loop hangs")
	status, body = get(t, h, http.MethodGet, "/readyz")
	assert.Equal(t, 503, status)
	assert.Equal(t, "not ready:\npartition 3: loading\nthe store cannot be written to\n", body)
	status, body = get(t, h, http.MethodGet, "/livez")
	assert.Equal(t, 503, status)
	assert.Equal(t, "the loop hangs\n", body)

	cfg.Pprof = true
	status, _ = get(t, NewHandler(cfg), http.MethodGet, "/debug/pprof/goroutine?debug=1")
	assert.Equal(t, 200, status)
}

func TestServerServesAndShutsDown(t *testing.T) {
	checkLeaks(t)
	entered, release := make(chan struct{}, 2), make(chan struct{})
	cfg := ServerConfig{Listen: "127.0.0.1:0", Registry: prometheus.NewRegistry(), Unready: func() []string {
		entered <- struct{}{}
		<-release
		return nil
	}}
	s, err := NewServer(cfg)
	require.NoError(t, err)
	require.True(t, s.listener.Addr().(*net.TCPAddr).IP.IsLoopback())
	taken := cfg
	taken.Listen = s.listener.Addr().String()
	_, err = NewServer(taken)
	require.Error(t, err, "the port is taken")

	served := make(chan error, 1)
	go func() { served <- s.Serve() }()
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	answer := make(chan string, 1)
	go func() {
		res, err := client.Get("http://" + s.listener.Addr().String() + "/readyz")
		if err != nil {
			answer <- err.Error()
			return
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		answer <- string(body)
	}()
	<-entered
	late, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, s.Shutdown(late), context.DeadlineExceeded, "a request is under way")
	close(release)
	require.ErrorIs(t, <-served, http.ErrServerClosed)
	require.NotEqual(t, "ready\n", <-answer, "it was cut off")

	s, err = NewServer(cfg)
	require.NoError(t, err)
	require.NoError(t, s.Shutdown(t.Context()), "one that never served")
	_, err = net.DialTimeout("tcp", s.listener.Addr().String(), time.Second)
	require.Error(t, err)
	_, err = NewServer(ServerConfig{})
	require.Error(t, err)
}
