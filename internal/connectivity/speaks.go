package connectivity

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"time"
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
		_, err = ask(conn, apiVersions, nil)
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

// Kafka's requests that are allowed before SASL.
const (
	saslHandshake = 17 // version 1: a mechanism
	apiVersions   = 18 // version 0: nothing
)

const (
	correlation = 0x72616e6b
	maxAnswer   = 1 << 20
)

func ask(conn net.Conn, key int16, body []byte) (answer []byte, err error) {
	be := binary.BigEndian
	var version int16
	if key == saslHandshake {
		version = 1
	}
	b := be.AppendUint32(nil, uint32(2+2+4+2+len(body)))
	b = be.AppendUint16(b, uint16(key))
	b = be.AppendUint16(b, uint16(version))
	b = be.AppendUint32(b, correlation)
	b = append(be.AppendUint16(b, 0xffff), body...) // no client id
	if _, err := conn.Write(b); err != nil {
		return nil, err
	}
	var head [8]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, err
	}
	size := int64(be.Uint32(head[:])) - 4
	if be.Uint32(head[4:]) != correlation || size < 2 || size > maxAnswer {
		return nil, errOther
	}
	answer = make([]byte, size)
	_, err = io.ReadFull(conn, answer)
	return answer, err
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
	const none = "-" // no broker has it, so that it answers with its own
	answer, err := ask(conn, saslHandshake, append([]byte{0, byte(len(none))}, none...))
	const unsupported = 33
	if err != nil {
		return nil, false
	}
	be := binary.BigEndian
	if be.Uint16(answer) != unsupported || len(answer) < 6 {
		return nil, true // 34, ILLEGAL_SASL_STATE: no SASL on this port
	}
	n, rest := be.Uint32(answer[2:]), answer[6:]
	for ; n > 0 && len(rest) >= 2; n-- {
		size := int(be.Uint16(rest))
		if len(rest) < 2+size {
			break
		}
		offers, rest = append(offers, string(rest[2:2+size])), rest[2+size:]
	}
	return offers, true
}
