package serve

import (
	"cmp"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"golang.org/x/time/rate"

	"github.com/ranker-worker/ranker-worker/config"
)

// guard knows who may send, and how much.
type guard struct {
	read     func() (config.Tokens, error)
	log      *slog.Logger
	perToken int
	all      *rate.Limiter

	mu     sync.Mutex
	tokens config.Tokens // nil: everybody may
	rates  map[string]*rate.Limiter
	broken bool // the file could not be read when it was last tried
}

// tokenRate is how many requests a second each token may send.
const tokenRate = 10_000

// limiter lets so many through in a second, all of them at once if need be.
func limiter(perSecond int) *rate.Limiter { return rate.NewLimiter(rate.Limit(perSecond), perSecond) }

func newGuard(cfg *config.Config, opt Options) (*guard, error) {
	g := &guard{read: cfg.ServeTokens, log: opt.Logger, perToken: cmp.Or(opt.TokenRate, tokenRate), all: limiter(cfg.Serve.Rate), rates: map[string]*rate.Limiter{}}
	tokens, err := cfg.ServeTokens()
	if err != nil {
		return nil, err
	}
	g.tokens = tokens
	return g, nil
}

// renew reads the tokens anew. Where that fails those that were read before go on to count, which is said once.
func (g *guard) renew() {
	tokens, err := g.read()
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case err != nil:
		if !g.broken {
			g.log.Error("the tokens were not reloaded; the earlier ones stay valid", "error", err)
		}
	case !reflect.DeepEqual(tokens, g.tokens):
		g.tokens = tokens
		clear(g.rates)
		g.log.Info("the tokens were reloaded", "tokens", len(tokens))
	}
	g.broken = err != nil
}

// known tells whether a request may be heard, and in whose name.
func (g *guard) known(r *http.Request) (name string, ok bool) {
	g.mu.Lock()
	tokens := g.tokens
	g.mu.Unlock()
	if tokens == nil {
		return "", true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	name, ok = tokens[sha256.Sum256([]byte(strings.TrimSpace(token)))]
	return name, ok
}

// admit says why a request is turned away; nil: it is not.
func (g *guard) admit(r *http.Request) *problem {
	name, ok := g.known(r)
	if !ok {
		return noToken()
	}
	if name != "" && !g.of(name).Allow() {
		return tooMany("of this token")
	}
	if !g.all.Allow() {
		return tooMany("of all together")
	}
	return nil
}

func (g *guard) of(name string) *rate.Limiter {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.rates[name]
	if l == nil {
		l = limiter(g.perToken)
		g.rates[name] = l
	}
	return l
}
