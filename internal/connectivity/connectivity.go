package connectivity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"
)

type Kind int

const (
	Kafka Kind = iota
	Redis
)

// words returns the names of a kind: of its server, and of its section of the configuration.
func (k Kind) words() (server, section string) {
	if k == Kafka {
		return "broker", "kafka"
	}
	return "Redis", "redis"
}

type Server struct {
	Kind    Kind
	Address string      // host:port
	TLS     *tls.Config // nil: plaintext
	SASL    string      // Kafka's name of the mechanism; empty: none
	Login   string      // credentials of the connection, and the setting to check if they are refused; empty: user and password
}

// login names the refused credentials of a broker.
func (s *Server) login() string {
	if s.Login != "" {
		return s.Login
	}
	return "this user and password: see kafka.sasl.username, and kafka.sasl.password or password_file"
}

// timeout bounds each attempt to recognise a server's protocol.
const timeout = 2 * time.Second

type explained struct {
	text string
	err  error
}

func (e *explained) Error() string { return fmt.Sprintf("%s (%v)", e.text, e.err) }
func (e *explained) Unwrap() error { return e.err }

// Why explains a connection error. If the error is not enough, it connects to the server, for at most some seconds. It returns err
// unchanged if it has nothing to add.
func Why(ctx context.Context, s Server, err error) error {
	var already *explained
	if err == nil || errors.As(err, &already) {
		return err
	}
	text := s.plain(err)
	if text == "" && hungUp(err) {
		text = s.tried(ctx, err)
	}
	if text == "" {
		return err
	}
	return &explained{text, err}
}

// plain explains an error without a connection.
func (s *Server) plain(err error) string {
	name, section := s.Kind.words()
	var (
		dns       *net.DNSError
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &dns):
		return fmt.Sprintf("no address is known of %q: is the name in %s right, and does this machine's DNS know it?", dns.Name, s.where())
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Sprintf("nothing listens at %s: is the %s running, and are host and port in %s right?", s.Address, name, s.where())
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return fmt.Sprintf("there is no way to %s from here: is the address in %s right, and the network up?", s.Address, s.where())
	case errors.As(err, &authority):
		return fmt.Sprintf("the certificate of the %s at %s is of an authority that is not trusted here: set %s.tls.ca_file to its CA's certificate", name, s.Address, section)
	case errors.As(err, &host):
		return fmt.Sprintf("the certificate of the %s at %s is for another name: use the name that it is for, or set %s.tls.server_name to it", name, s.Address, section)
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Sprintf("the certificate of the %s at %s has expired, or this machine's clock is wrong: renew it, or set the clock", name, s.Address)
	case wantsCertificate(err):
		return fmt.Sprintf("the %s at %s wants a client certificate that it trusts: set %s.tls.cert_file and %s.tls.key_file", name, s.Address, section, section)
	case s.Kind == Kafka:
		return s.kafkaCode(err)
	}
	return s.redisCode(err)
}

// where names the setting of the address.
func (s *Server) where() string {
	if s.Kind == Kafka {
		return "kafka.brokers, or in the advertised.listeners of that broker"
	}
	return "redis.url or redis.addresses"
}

// wantsCertificate reports whether a TLS alert means that the server refused our certificate, or received none.
func wantsCertificate(err error) bool {
	var alert *net.OpError
	if !errors.As(err, &alert) || alert.Op != "remote error" {
		return false
	}
	var code tls.AlertError
	if !errors.As(alert.Err, &code) {
		return strings.Contains(alert.Err.Error(), "certificate") // crypto/tls has an unexported type for received alerts
	}
	return strings.Contains(code.Error(), "certificate")
}

func (s *Server) kafkaCode(err error) string {
	switch {
	case errors.Is(err, kafka.SASLAuthenticationFailed):
		return fmt.Sprintf("the broker at %s does not take %s", s.Address, s.login())
	case errors.Is(err, kafka.UnsupportedSASLMechanism):
		return fmt.Sprintf("the broker at %s does not offer %s: set kafka.sasl.mechanism to one that it offers (sasl.enabled.mechanisms)", s.Address, s.SASL)
	case errors.Is(err, kafka.IllegalSASLState):
		return fmt.Sprintf("the broker at %s asks for no SASL there: remove kafka.sasl, or use its SASL port", s.Address)
	}
	return ""
}

func (s *Server) redisCode(err error) string {
	text := err.Error()
	for _, c := range []struct{ prefix, says string }{
		{"WRONGPASS", "does not take this user and password: see redis.url, redis.username and redis.password or password_file"},
		{"NOAUTH", "wants a password: set redis.password or password_file, and redis.username where it has users"},
		{"ERR AUTH", "has no password set: remove redis.password, or set requirepass there"},
		{"DENIED", "is in protected mode: set a password there (requirepass, or ACL SETUSER), and redis.password here"},
		{"MOVED", "is a node of a Redis Cluster: set redis.cluster: true"},
		{"ERR This instance has cluster support disabled", "is no Redis Cluster: remove redis.cluster"},
	} {
		if strings.Contains(text, c.prefix) {
			return fmt.Sprintf("the Redis at %s %s", s.Address, c.says)
		}
	}
	return ""
}

// hungUp reports whether the error can result from a mismatch of protocols.
func hungUp(err error) bool {
	var header tls.RecordHeaderError
	var network net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) ||
		errors.Is(err, syscall.EPIPE) || errors.Is(err, net.ErrClosed) || errors.As(err, &header) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}

// tried explains an error by the protocol that the server answers in.
func (s *Server) tried(ctx context.Context, err error) string {
	name, section := s.Kind.words()
	speaks := s.speaks(context.WithoutCancel(ctx))
	toPlain, toTLS := fmt.Sprintf("remove %s.tls", section), fmt.Sprintf("set %s.tls", section)
	if s.Kind == Redis {
		toPlain, toTLS = "write redis:// in redis.url and remove redis.tls", "write rediss:// in redis.url, or set redis.tls"
	}
	switch {
	case speaks == silence:
		return fmt.Sprintf("%s cannot be connected to: a firewall in between, a wrong address in %s, or a %s that is down", s.Address, s.where(), name)
	case speaks == mute:
		return fmt.Sprintf("%s takes connections and says nothing: it is the port of something else, or of a %s that hangs; see %s", s.Address, name, s.where())
	case speaks == other:
		return fmt.Sprintf("the server at %s is no %s that this worker can talk to: see the port in %s", s.Address, name, s.where())
	case s.TLS != nil && speaks == plaintext:
		return fmt.Sprintf("the %s at %s speaks plaintext there: %s, or use its TLS port", name, s.Address, toPlain)
	case s.TLS == nil && speaks == encrypted:
		return fmt.Sprintf("the %s at %s speaks TLS there: %s, or use its plaintext port", name, s.Address, toTLS)
	case s.Kind == Kafka:
		return s.triedSASL(ctx, err)
	}
	return ""
}

// triedSASL explains why a broker closed a connection after the TLS handshake.
func (s *Server) triedSASL(ctx context.Context, err error) string {
	offers, asked := s.mechanisms(context.WithoutCancel(ctx))
	switch {
	case !asked:
		return ""
	case s.SASL == "" && len(offers) > 0:
		return fmt.Sprintf("the broker at %s hung up on a client without SASL: set kafka.sasl (it offers %s), or use its port without SASL", s.Address, strings.Join(offers, ", "))
	case s.SASL != "" && len(offers) == 0:
		return fmt.Sprintf("the broker at %s asks for no SASL there: remove kafka.sasl, or use its SASL port", s.Address)
	case s.SASL != "" && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)):
		return fmt.Sprintf("the broker at %s hung up while logging in: see kafka.sasl.mechanism (it offers %s); it may not take %s",
			s.Address, strings.Join(offers, ", "), s.login())
	}
	return ""
}
