package broker

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// NewSASL makes the mechanism of a name: plain, scram-sha-256 or scram-sha-512. The empty name is no SASL at all.
func NewSASL(mechanism, username, password string) (sasl.Mechanism, error) {
	switch mechanism {
	case "":
		return nil, nil
	case "plain":
		return plain.Mechanism{Username: username, Password: password}, nil
	case "scram-sha-256", "scram-sha-512":
		algorithm := scram.SHA256
		if mechanism == "scram-sha-512" {
			algorithm = scram.SHA512
		}
		m, err := scram.Mechanism(algorithm, username, password)
		if err != nil {
			return nil, fmt.Errorf("preparing SASL %s for user %q: %w", mechanism, username, err)
		}
		return m, nil
	}
	return nil, fmt.Errorf("unknown SASL mechanism %q: plain, scram-sha-256 or scram-sha-512", mechanism)
}

// NewTLS reads PEM files. Without a CA file the system's roots are trusted; certificate and key, for a client that
// shows one, go together.
func NewTLS(caFile, certFile, keyFile string) (*tls.Config, error) {
	t := &tls.Config{MinVersion: tls.VersionTLS12}
	if caFile != "" {
		pem, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("reading the CA file: %w", err)
		}
		t.RootCAs = x509.NewCertPool()
		if !t.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("the CA file %s holds no certificate in PEM form", caFile)
		}
	}
	if (certFile == "") != (keyFile == "") {
		return nil, errors.New("a client certificate needs both a certificate file and a key file")
	}
	if certFile != "" {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return nil, fmt.Errorf("reading the client certificate: %w", err)
		}
		t.Certificates = []tls.Certificate{pair}
	}
	return t, nil
}
