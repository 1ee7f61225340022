package login

import (
	"context"
	"time"
)

// token is one that was handed out.
type token struct {
	value string
	ends  time.Time // zero: nobody knows
}

// cache keeps a token until a fifth of its time is left. One that cannot be renewed is used until it ends: who hands tokens out may be
// away for a while.
type cache struct {
	fetch func(context.Context) (token, error)
	now   func() time.Time

	turn  chan struct{} // holds one while a connection looks; it is asked for once, however many connections want it
	held  token
	renew time.Time
}

func newCache(fetch func(context.Context) (token, error), now func() time.Time) *cache {
	return &cache{fetch: fetch, now: now, turn: make(chan struct{}, 1)}
}

// Token is today's token.
func (c *cache) Token(ctx context.Context) (string, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	now := c.now()
	if now.Before(c.renew) {
		return c.held.value, nil
	}
	fresh, err := c.fetch(ctx)
	switch {
	case err == nil:
		c.held, c.renew = fresh, now.Add(fresh.ends.Sub(now)/5*4)
	case !now.Before(c.held.ends):
		return "", err
	}
	return c.held.value, nil
}
