package door

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/ranker-worker/ranker-worker/docs"
)

// The paths that records and rankings go through.
const (
	rankPath       = "/v1/rank"
	selectionsPath = "/v1/selections"
	payoffsPath    = "/v1/payoffs"
	rankingsPath   = "/v1/rankings/{id}"
)

var paths = []string{rankPath, selectionsPath, payoffsPath, rankingsPath}

// answer is what a request comes to: a body, or a problem.
type answer struct {
	status  int
	body    []byte
	problem *problem
}

// Handler serves /v1. Health is what the others are served by: probes, and metrics, which need a token where /v1 does.
func (d *Door) Handler(health http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle(rankPath, d.traced(rankPath, d.guarded(rankPath, http.MethodPost, d.rank)))
	mux.Handle(selectionsPath, d.traced(selectionsPath, d.guarded(selectionsPath, http.MethodPost, d.selections)))
	mux.Handle(payoffsPath, d.traced(payoffsPath, d.guarded(payoffsPath, http.MethodPost, d.payoffs)))
	mux.Handle(rankingsPath, d.traced(rankingsPath, d.guarded(rankingsPath, http.MethodGet, d.ranking)))
	mux.HandleFunc("GET /v1/openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		writeBody(w, http.StatusOK, "application/yaml", docs.OpenAPI)
	})
	mux.Handle("GET /livez", health)
	mux.Handle("GET /readyz", health)
	for _, path := range []string{"GET /metrics", "GET /version"} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if _, ok := d.guard.known(r); !ok {
				noToken().write(w)
				return
			}
			health.ServeHTTP(w, r)
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { noSuchPath().write(w) })
	return mux
}

// guarded is a handler within the limits.
func (d *Door) guarded(path, method string, handle func(*http.Request) answer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		a := d.admitted(r, method, handle)
		if a.problem != nil {
			a.status = a.problem.Status
		}
		d.opt.Metrics.answered(path, a.status, time.Since(start))
		if a.problem == nil {
			writeBody(w, a.status, "application/json", a.body)
			return
		}
		if a.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", method)
		}
		a.problem.write(w)
	})
}

func (d *Door) admitted(r *http.Request, method string, handle func(*http.Request) answer) answer {
	if r.Method != method {
		return answer{problem: otherMethod(method)}
	}
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	default:
		return answer{problem: busy()}
	}
	if p := d.guard.admit(r); p != nil {
		return answer{problem: p}
	}
	return handle(r)
}

// withBody gives a handler the request's body.
func (d *Door) withBody(r *http.Request, handle func(body []byte) answer) answer {
	most := d.cfg.Serve.MaxBodyBytes
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return answer{problem: notJSON()}
	}
	size := r.ContentLength
	if size < 0 {
		size = most
	}
	if size > most {
		return answer{problem: tooLarge(overLimit(most))}
	}
	if !d.bodies.TryAcquire(size) {
		return answer{problem: busy()}
	}
	defer d.bodies.Release(size)
	var body bytes.Buffer
	body.Grow(int(min(size, 64<<10)))
	_, err := io.Copy(&body, http.MaxBytesReader(nil, r.Body, most))
	var over *http.MaxBytesError
	switch {
	case errors.As(err, &over):
		return answer{problem: tooLarge(overLimit(most))}
	case err != nil:
		return answer{problem: unreadableBody(err.Error())}
	}
	return handle(body.Bytes())
}

func overLimit(most int64) string {
	return fmt.Sprintf("a body has at most %d bytes (serve.max_body_bytes)", most)
}
