package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// dialer connects by TLS; nil for plain TCP.
func (o *Options) dialer() func(ctx context.Context, network, addr string) (net.Conn, error) {
	if o.TLS == nil {
		return nil
	}
	d := &tls.Dialer{NetDialer: &net.Dialer{Timeout: o.DialTimeout, KeepAlive: 5 * time.Minute}, Config: o.TLS}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return alertConn{c.(*tls.Conn)}, nil // tls.Dialer returns a *tls.Conn
	}
}

// alertConn adds the server's TLS alert to write errors. With TLS 1.3 the server checks our certificate while we already write. Such a
// write fails with a reset connection, before the alert with the cause is read.
type alertConn struct{ *tls.Conn }

// alertTimeout bounds the wait for an alert, which usually arrives before writing fails.
const alertTimeout = 100 * time.Millisecond

func (c alertConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err == nil || c.SetReadDeadline(time.Now().Add(alertTimeout)) != nil {
		return n, err
	}
	var alert *net.OpError
	if _, why := c.Read(make([]byte, 1)); errors.As(why, &alert) && alert.Op == "remote error" {
		return n, why
	}
	return n, err
}
