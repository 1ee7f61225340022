package connectivity

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/stream/wire"
)

type language int

const (
	silence   language = iota // no connection
	mute                      // a connection, and no answer in time
	other                     // something else answers
	plaintext                 // the expected protocol, unencrypted
	encrypted                 // TLS
)

func (s *Server) speaks(ctx context.Context) language {
	if s.shakesHands(ctx) {
		return encrypted
	}
	conn, err := s.connect(ctx)
	if err != nil {
		return silence
	}
	defer conn.Close()
	if s.Kind == Kafka {
		_, err = wire.AskVersions(conn, "") // of 10 bytes: with a newline in its length, which Redis answers
	} else {
		err = ping(conn)
	}
	var network net.Error
	switch {
	case err == nil:
		return plaintext
	case errors.As(err, &network) && network.Timeout():
		return mute
	}
	return other
}

func (s *Server) connect(ctx context.Context) (net.Conn, error) {
	d := net.Dialer{Timeout: timeout}
	conn, err := d.DialContext(ctx, "tcp", s.Address)
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(timeout))
}

// shakesHands reports whether the server answers with TLS: a certificate of any issuer, or an alert.
func (s *Server) shakesHands(ctx context.Context) bool {
	conn, err := s.connect(ctx)
	if err != nil {
		return false
	}
	defer conn.Close()
	host, _, _ := net.SplitHostPort(s.Address) // was dialled before
	var untrusted *tls.CertificateVerificationError
	var remote *net.OpError
	err = tls.Client(conn, &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}).HandshakeContext(ctx)
	return err == nil || errors.As(err, &untrusted) || errors.As(err, &remote) && remote.Op == "remote error"
}

// errOther: the answer is of another protocol.
var errOther = errors.New("an answer of something else")

// ping sends PING. A server that demands a password is a Redis, too.
func ping(conn net.Conn) error {
	if _, err := io.WriteString(conn, "*1\r\n$4\r\nPING\r\n"); err != nil {
		return err
	}
	first := make([]byte, 1)
	if _, err := io.ReadFull(conn, first); err != nil {
		return err
	}
	if first[0] != '+' && first[0] != '-' {
		return errOther
	}
	return nil
}

// mechanisms asks a broker for its SASL mechanisms without logging in; none if it has no SASL. asked is false if it could not be asked.
func (s *Server) mechanisms(ctx context.Context) (offers []string, asked bool) {
	conn, err := s.connect(ctx)
	if err != nil {
		return nil, false
	}
	defer conn.Close()
	if s.TLS != nil {
		c := s.TLS.Clone()
		if c.ServerName == "" {
			c.ServerName, _, _ = net.SplitHostPort(s.Address)
		}
		secure := tls.Client(conn, c)
		if secure.HandshakeContext(ctx) != nil {
			return nil, false
		}
		conn = secure
	}
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Version, req.Mechanism = 1, "-" // no broker has it, so that it answers with its own
	res, err := wire.RoundTrip(conn, "", req)
	if err != nil {
		return nil, false
	}
	got := res.(*kmsg.SASLHandshakeResponse)
	if kafka.Error(got.ErrorCode) != kafka.UnsupportedSASLMechanism {
		return nil, true // ILLEGAL_SASL_STATE: no SASL on this port
	}
	return got.SupportedMechanisms, true
}
