package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// authority is a CA of one test, with the files that it has signed.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// pair are a certificate and its key in PEM, in memory and as files.
type pair struct {
	certPEM, keyPEM   string
	certFile, keyFile string
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "test CA"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign}
	p, der, key := sign(t, a, "ca", template, nil, nil)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	require.Equal(t, a.file(), p.certFile)
	a.cert, a.key = cert, key
	return a
}

// file is the CA's own certificate.
func (a *authority) file() string { return filepath.Join(a.dir, "ca.crt") }

func (a *authority) pem(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(a.file())
	require.NoError(t, err)
	return string(text)
}

// server signs a certificate for servers on loopback.
func (a *authority) server(t *testing.T) pair {
	t.Helper()
	p, _, _ := sign(t, a, "server", &x509.Certificate{Subject: pkix.Name{CommonName: "server"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		KeyUsage: x509.KeyUsageDigitalSignature}, a.cert, a.key)
	return p
}

// client signs a certificate for the worker.
func (a *authority) client(t *testing.T) pair {
	t.Helper()
	p, _, _ := sign(t, a, "client", &x509.Certificate{Subject: pkix.Name{CommonName: "ranker-worker"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, KeyUsage: x509.KeyUsageDigitalSignature}, a.cert, a.key)
	return p
}

// serves returns an embedded server's TLS configuration that asks for certificates of this CA.
func (a *authority) serves(t *testing.T, p pair) *tls.Config {
	t.Helper()
	own, err := tls.X509KeyPair([]byte(p.certPEM), []byte(p.keyPEM))
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{own}, ClientCAs: pool,
		ClientAuth: tls.RequireAndVerifyClientCert}
}

// sign makes a key and its certificate; without a parent, it signs itself.
func sign(t *testing.T, a *authority, name string, template, parent *x509.Certificate, by *ecdsa.PrivateKey) (pair, []byte, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	if parent == nil {
		parent, by = template, key
	}
	template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<62))
	require.NoError(t, err)
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, by)
	require.NoError(t, err)
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key) // the one form that Kafka reads
	require.NoError(t, err)
	p := pair{
		certPEM:  string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
		keyPEM:   string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})),
		certFile: filepath.Join(a.dir, name+".crt"), keyFile: filepath.Join(a.dir, name+".key"),
	}
	require.NoError(t, os.WriteFile(p.certFile, []byte(p.certPEM), 0o600))
	require.NoError(t, os.WriteFile(p.keyFile, []byte(p.keyPEM), 0o600))
	return p, der, key
}
