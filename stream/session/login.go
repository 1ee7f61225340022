package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/apiversions"
	"github.com/segmentio/kafka-go/protocol/saslauthenticate"
	"github.com/segmentio/kafka-go/protocol/saslhandshake"
	"github.com/segmentio/kafka-go/sasl"
)

// soonest is the minimum time between logins: brokers refuse two in one second.
const soonest = 1100 * time.Millisecond

// login logs in, and sets the time of the next login. No answer is outstanding, and there is no other reader or writer.
func (c *conn) login(ctx context.Context, first bool) error {
	begun := c.now()
	wire := protocol.NewConn(c.Conn, c.d.ClientID)
	if first {
		if err := c.negotiate(wire); err != nil {
			return err
		}
	}
	wire.SetVersions(map[protocol.ApiKey]int16{protocol.SaslHandshake: 1, protocol.SaslAuthenticate: c.version})
	lasts, err := c.exchange(sasl.WithMetadata(ctx, c.meta), wire)
	if err != nil {
		return err
	}
	if c.due = (time.Time{}); lasts > 0 {
		// As Apache's client does: early enough, and not all connections at once.
		c.due, c.ends = begun.Add(time.Duration((0.85+0.1*rand.Float64())*float64(lasts))), begun.Add(lasts)
		if earliest := c.now().Add(soonest); c.due.Before(earliest) {
			c.due = earliest
		}
	}
	return nil
}

// negotiate checks whether the broker reports how long sessions last: from version 1 of SaslAuthenticate on.
func (c *conn) negotiate(wire *protocol.Conn) error {
	m, err := wire.RoundTrip(new(apiversions.Request))
	if err != nil {
		return fmt.Errorf("asking for versions: %w", err)
	}
	res := m.(*apiversions.Response)
	if res.ErrorCode != 0 {
		return fmt.Errorf("asking for versions: %w", kafka.Error(res.ErrorCode))
	}
	for _, k := range res.ApiKeys {
		if protocol.ApiKey(k.ApiKey) == protocol.SaslAuthenticate {
			c.version = min(k.MaxVersion, 1)
		}
	}
	return nil
}

// exchange runs the SASL exchange, and returns the session's length; 0: for ever.
func (c *conn) exchange(ctx context.Context, wire *protocol.Conn) (lasts time.Duration, err error) {
	m, err := wire.RoundTrip(&saslhandshake.Request{Mechanism: c.d.SASL.Name()})
	if err != nil {
		return 0, err
	}
	if code := m.(*saslhandshake.Response).ErrorCode; code != 0 {
		return 0, kafka.Error(code)
	}
	state, message, err := c.d.SASL.Start(ctx)
	if err != nil {
		return 0, err
	}
	for done := false; !done; {
		m, err := wire.RoundTrip(&saslauthenticate.Request{AuthBytes: message})
		if errors.Is(err, io.EOF) {
			return 0, kafka.SASLAuthenticationFailed // some brokers say it by closing the connection
		}
		if err != nil {
			return 0, err
		}
		res := m.(*saslauthenticate.Response)
		if res.ErrorCode != 0 {
			return 0, fmt.Errorf("%w: %s", kafka.Error(res.ErrorCode), res.ErrorMessage)
		}
		lasts = time.Duration(min(max(res.SessionLifetimeMs, 0), int64(24*365*time.Hour/time.Millisecond))) * time.Millisecond
		if done, message, err = state.Next(ctx, res.AuthBytes); err != nil {
			return 0, err
		}
	}
	return lasts, nil
}
