package stream

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// DefaultListen is the server's default address: loopback only, since it asks for no credentials.
const DefaultListen = "127.0.0.1:9108"

type ServerConfig struct {
	Listen   string              // host:port; empty: DefaultListen; port 0: any free one, see Server.Addr
	Pprof    bool                // serve /debug/pprof/
	Registry prometheus.Gatherer // for /metrics
	// Unready returns why the worker is not ready; empty: it is.
	Unready func() []string
	// Dead returns why the process must be restarted, nil otherwise. Faults that
	// a restart does not mend (Kafka or the store away) do not belong here.
	Dead    func() error
	Version any          // /version shows it as JSON
	Page    http.Handler // for / and /page/; nil: / lists the other paths
	Logger  *slog.Logger // default: none
}

// Server serves /livez, /readyz, /metrics and /version, and optionally a page at / and /debug/pprof/.
type Server struct {
	http     *http.Server
	listener net.Listener
}

// NewServer listens. It fails if the port is taken or a part of cfg is missing. Serve serves.
func NewServer(cfg ServerConfig) (*Server, error) {
	if cfg.Registry == nil || cfg.Unready == nil {
		return nil, fmt.Errorf("HTTP server: a registry and a test for readiness are needed")
	}
	if cfg.Listen == "" {
		cfg.Listen = DefaultListen
	}
	return NewServerOf(cfg.Listen, NewHandler(cfg), nil, writeText, cfg.Logger)
}

// NewServerOf is NewServer with another handler, and with TLS unless security is nil. On loopback it answers requests
// for other hosts, or from other sites' pages, with refuse; refuse is nil if the handler asks for credentials.
func NewServerOf(listen string, handler http.Handler, security *tls.Config, refuse Refuse, log *slog.Logger) (*Server, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("HTTP server: %w", err)
	}
	if refuse != nil && onLoopback(listener) {
		handler = ownNames(handler, refuse)
	}
	return &Server{listener: listener, http: &http.Server{
		Handler:   handler,
		TLSConfig: security,
		// Each bounds the resources that a slow or hostile client can hold. pprof extends WriteTimeout by its sampling time.
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      30 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}}, nil
}

func (s *Server) Addr() string { return s.listener.Addr().String() }

// Serve serves until Shutdown, and then returns http.ErrServerClosed.
func (s *Server) Serve() error {
	if s.http.TLSConfig != nil {
		return s.http.ServeTLS(s.listener, "", "")
	}
	return s.http.Serve(s.listener)
}

// Shutdown lets requests finish until ctx ends, then cuts them off. It also ends a server that never served.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	_ = s.listener.Close() // closed already if Serve was called
	if err != nil {
		_ = s.http.Close()
		return fmt.Errorf("HTTP server: requests were cut off: %w", err)
	}
	return nil
}

// maxScrapes bounds concurrent scrapes; more get 503.
const maxScrapes = 4

// NewHandler returns the server's handler. It ignores cfg.Listen.
func NewHandler(cfg ServerConfig) http.Handler {
	mux := http.NewServeMux()
	if cfg.Page != nil {
		mux.Handle("GET /{$}", cfg.Page)
		mux.Handle("GET /page/", cfg.Page)
	} else {
		mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
			writeText(w, http.StatusOK, "ranker-worker: /livez /readyz /metrics /version")
		})
	}
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		if cfg.Dead != nil {
			if err := cfg.Dead(); err != nil {
				writeText(w, http.StatusServiceUnavailable, err.Error())
				return
			}
		}
		writeText(w, http.StatusOK, "alive")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if why := cfg.Unready(); len(why) > 0 {
			writeText(w, http.StatusServiceUnavailable, "not ready:\n"+strings.Join(why, "\n"))
			return
		}
		writeText(w, http.StatusOK, "ready")
	})
	mux.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		body, err := json.Marshal(cfg.Version)
		if err != nil {
			writeText(w, http.StatusInternalServerError, err.Error())
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(append(body, '\n'))
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(cfg.Registry, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes, EnableOpenMetrics: true,
	}))
	if cfg.Pprof {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}

func writeText(w http.ResponseWriter, status int, text string) {
	h := w.Header()
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = fmt.Fprintln(w, text)
}

// Refuse answers a refused request.
type Refuse func(w http.ResponseWriter, status int, why string)

// ownNames refuses requests that a browser sends for another site's page. They have another origin, or a host other than loopback, to which
// the site has pointed its own name (DNS rebinding).
func ownNames(h http.Handler, refuse Refuse) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !ownHost(r.Host) {
			refuse(w, http.StatusMisdirectedRequest, fmt.Sprintf("Host %.100q is no name of the loopback address, where this server listens: ask for "+
				"127.0.0.1 or localhost, and have a proxy send one of these", r.Host))
			return
		}
		if origin := r.Header.Get("Origin"); origin != "" {
			if u, err := url.Parse(origin); err != nil || !strings.EqualFold(u.Host, r.Host) {
				refuse(w, http.StatusForbidden, fmt.Sprintf("Origin %.100q is another than this server's: ask for it from a page of its own, or send no Origin",
					origin))
				return
			}
		}
		h.ServeHTTP(w, r)
	})
}

// ownHost reports whether a Host header names loopback. No site can redirect an address or localhost. A client without Host is no browser.
func ownHost(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return true
	}
	return name == "" || name == "localhost" || strings.HasSuffix(name, ".localhost")
}

// onLoopback reports whether a listener is reachable from this machine only.
func onLoopback(l net.Listener) bool {
	a, ok := l.Addr().(*net.TCPAddr)
	return ok && a.IP.IsLoopback()
}
