package session

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/stream/wire"
)

// soonest is the minimum time between logins: brokers refuse two in one second.
const soonest = 1100 * time.Millisecond

// login logs in, and sets the time of the next login. No answer is outstanding, and there is no other reader or writer.
func (c *conn) login(ctx context.Context, first bool) error {
	begun := c.now()
	if first {
		theirs, err := wire.AskVersions(c.Conn, wire.ClientID)
		if err != nil {
			return fmt.Errorf("asking for versions: %w", err)
		}
		c.version = min(theirs[kmsg.SASLAuthenticate].MaxVersion, 1) // from 1 on, brokers report how long sessions last
	}
	lasts, err := c.exchange(sasl.WithMetadata(ctx, c.meta))
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

// exchange runs the SASL exchange, and returns the session's length; 0: for ever.
func (c *conn) exchange(ctx context.Context) (lasts time.Duration, err error) {
	handshake := kmsg.NewPtrSASLHandshakeRequest()
	handshake.Version, handshake.Mechanism = 1, c.d.SASL.Name()
	offered, err := wire.RoundTrip(c.Conn, wire.ClientID, handshake)
	if err != nil {
		return 0, err
	}
	if code := offered.(*kmsg.SASLHandshakeResponse).ErrorCode; code != 0 {
		return 0, kafka.Error(code)
	}
	state, message, err := c.d.SASL.Start(ctx)
	if err != nil {
		return 0, err
	}
	for done := false; !done; {
		req := kmsg.NewPtrSASLAuthenticateRequest()
		req.Version, req.SASLAuthBytes = c.version, message
		got, err := wire.RoundTrip(c.Conn, wire.ClientID, req)
		if err != nil {
			return 0, err // some brokers refuse by closing the connection
		}
		res := got.(*kmsg.SASLAuthenticateResponse)
		if res.ErrorCode != 0 {
			return 0, fmt.Errorf("%w: %s", kafka.Error(res.ErrorCode), wire.Text(res.ErrorMessage))
		}
		lasts = time.Duration(min(max(res.SessionLifetimeMillis, 0), int64(24*365*time.Hour/time.Millisecond))) * time.Millisecond
		if done, message, err = state.Next(ctx, res.SASLAuthBytes); err != nil {
			return 0, err
		}
	}
	return lasts, nil
}
