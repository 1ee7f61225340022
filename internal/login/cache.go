package login

import (
	"context"
	"time"
)

type token struct {
	value string
	ends  time.Time // zero: unknown
}

// While a token is valid, an issuer that hangs must leave a connection time to log in with it.
const (
	renewalLimit = 2 * time.Second // less than half of a connection's 5 s
	renewalPause = 5 * time.Second // after a failed renewal
)

// cache keeps a token until a fifth of its time is left. If it cannot be renewed it is used until it ends, since the issuer may be down for
// a while.
type cache struct {
	fetch func(context.Context) (token, error)
	now   func() time.Time

	turn  chan struct{} // held by the connection that requests a token, so that there is one request for all
	held  token
	renew time.Time
}

func newCache(fetch func(context.Context) (token, error), now func() time.Time) *cache {
	return &cache{fetch: fetch, now: now, turn: make(chan struct{}, 1)}
}

func (c *cache) Token(ctx context.Context) (string, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	now := c.now().Round(0) // the wall clock, which goes on while a machine is suspended
	if now.Before(c.renew) {
		return c.held.value, nil
	}
	valid := now.Before(c.held.ends)
	if valid {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, renewalLimit)
		defer cancel()
	}
	fresh, err := c.fetch(ctx)
	switch {
	case err == nil:
		c.held, c.renew = fresh, now.Add(fresh.ends.Sub(now)/5*4)
	case !valid:
		return "", err
	default:
		c.renew = now.Add(min(renewalPause, c.held.ends.Sub(now)))
	}
	return c.held.value, nil
}
