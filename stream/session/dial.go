package session

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go/sasl"
)

// Dialer makes connections that log in and stay logged in. kafka-go uses them without TLS and SASL of its own.
type Dialer struct {
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	TLS  *tls.Config    // nil: none
	SASL sasl.Mechanism // called at each login; nil: none
	// Timeout bounds repeated logins; the context bounds the first. Half of it is for the mechanism, which may have to request a token.
	Timeout time.Duration

	now func() time.Time // nil: time.Now
}

// DialContext connects, negotiates TLS and logs in.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("the broker's address: %w", err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, fmt.Errorf("the broker's address %s: %w", address, err)
	}
	under, err := d.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if under, err = d.secure(ctx, under, host); err != nil {
		return nil, err
	}
	if d.SASL == nil {
		return under, nil
	}
	c := newConn(under, d, &sasl.Metadata{Host: host, Port: port})
	if err := c.begin(ctx); err != nil {
		_ = c.Close() // the login's error says more
		return nil, fmt.Errorf("logging in to Kafka at %s: %w", address, err)
	}
	return c, nil
}

func (d *Dialer) secure(ctx context.Context, under net.Conn, host string) (net.Conn, error) {
	if d.TLS == nil {
		return under, nil
	}
	settings := d.TLS
	if settings.ServerName == "" {
		settings = settings.Clone()
		settings.ServerName = host
	}
	over := tls.Client(under, settings)
	if err := over.HandshakeContext(ctx); err != nil {
		_ = under.Close()
		return nil, err
	}
	return over, nil
}
