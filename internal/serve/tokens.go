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

// guard checks tokens and rates.
type guard struct {
	read     func() (config.Tokens, error)
	log      *slog.Logger
	perToken int
	all      *rate.Limiter

	mu     sync.Mutex
	tokens config.Tokens // nil: everybody may send
	rates  map[string]*rate.Limiter
	broken bool // the last read of the file failed
}

// tokenRate is the number of requests a second of each token.
const tokenRate = 10_000

// limiter allows this many requests a second, also all at once.
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

// renew reloads the tokens. If that fails the earlier ones stay valid, which is logged once.
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

// known reports whether a request has a valid token, and its name.
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

// admit returns the problem of a request that is refused; nil: it is admitted.
func (g *guard) admit(r *http.Request) *problem {
	name, ok := g.known(r)
	if !ok {
		return noToken.problem("")
	}
	if name != "" && !g.of(name).Allow() {
		return tooMany.problem("of this token")
	}
	if !g.all.Allow() {
		return tooMany.problem("of all together")
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
