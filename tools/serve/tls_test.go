package serve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

// certify writes a certificate for loopback, which it signs by itself, and its key.
func certify(t *testing.T, certFile, keyFile string, serial int64) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return cert
}

// TestTLS: a service with a certificate speaks TLS only, and shows the certificate that is there when it is asked.
func TestTLS(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	first := certify(t, certFile, keyFile, 1)
	p := newPlace(t, testenv.Embedded(t), 1, fmt.Sprintf("%s, cert_file: %q, key_file: %q", patient, certFile, keyFile), "")
	r := p.open(t)
	address := r.url[len("http://"):]
	r.url = "https://" + address
	trust := func(cert *x509.Certificate) {
		pool := x509.NewCertPool()
		pool.AddCert(cert)
		r.client.CloseIdleConnections()
		r.client = &http.Client{Transport: conforming{t, &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}}}
	}
	trust(first)
	const payoff = `{"impression_id":"i","payoff":1}`
	require.Equal(t, http.StatusAccepted, r.post(t, "/v1/payoffs", payoff).Status)
	second := certify(t, certFile, keyFile, 2)
	trust(second)
	require.Equal(t, http.StatusAccepted, r.post(t, "/v1/payoffs", payoff).Status, "the renewed certificate")
	plain, err := http.Get("http://" + address + "/livez")
	require.NoError(t, err)
	defer plain.Body.Close()
	require.Equal(t, http.StatusBadRequest, plain.StatusCode)
}
