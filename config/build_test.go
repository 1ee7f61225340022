package config

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// certificate writes a self-signed certificate for "broker.test", and its key, into dir.
func certificate(t *testing.T, dir, name string) (certFile, keyFile string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"broker.test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
	return certFile, keyFile
}

// TestTLSConfig: client and server accept each other with the configuration's certificates, and a renewed client
// certificate is presented without a restart.
func TestTLSConfig(t *testing.T) {
	certFile, keyFile := certificate(t, t.TempDir(), "server")
	ownDir := t.TempDir()
	ownCert, ownKey := certificate(t, ownDir, "first")
	c := load(t, complete(fmt.Sprintf(
		"kafka: {brokers: ['127.0.0.1:9092'], group: g, tls: {ca_file: %q, cert_file: %q, key_file: %q, server_name: broker.test}}\n",
		certFile, ownCert, ownKey)), noEnv)
	client, err := c.TLSConfig()
	require.NoError(t, err)
	serverCert, err := tls.LoadX509KeyPair(certFile, keyFile)
	require.NoError(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.TLS.PeerCertificates[0].Subject.CommonName)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{serverCert}, ClientAuth: tls.RequireAnyClientCert}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the last handshake fails
	server.StartTLS()
	defer server.Close()
	asks := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{TLSClientConfig: client, DisableKeepAlives: true}}
	handshake := func() (string, error) {
		answer, err := asks.Get(server.URL)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		name, err := io.ReadAll(answer.Body)
		return string(name), err
	}
	name, err := handshake()
	require.NoError(t, err)
	assert.Equal(t, "first", name)
	certificate(t, ownDir, "renewed")
	name, err = handshake()
	require.NoError(t, err)
	assert.Equal(t, "renewed", name)
	require.NoError(t, os.Remove(ownKey))
	_, err = handshake()
	require.ErrorContains(t, err, "w.yaml:1: kafka.tls.key_file")

	none, err := c.RedisTLSConfig()
	require.NoError(t, err)
	assert.Nil(t, none)
}

// TestBuildersNameTheKey: files that are missing or wrong are reported with the key that names them.
func TestBuildersNameTheKey(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	huge := filepath.Join(dir, "huge")
	require.NoError(t, os.WriteFile(huge, bytes.Repeat([]byte("x"), 100_000), 0o600))
	missing := filepath.Join(dir, "missing")
	redis := func(s string) *Config {
		return load(t, complete(fmt.Sprintf("redis:\n  addresses: ['127.0.0.1:1']\n  %s\n", s)), noEnv)
	}
	for _, file := range []string{empty, missing, certIn(t, dir)} {
		c := redis(fmt.Sprintf("tls: {ca_file: %q}", file))
		_, err := c.RedisTLSConfig()
		if strings.HasSuffix(file, "cert.pem") {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, "w.yaml:3: redis.tls.ca_file: ")
	}
	c := redis(fmt.Sprintf("tls: {cert_file: %q, key_file: %q}", missing, missing))
	_, err := c.RedisTLSConfig()
	require.ErrorContains(t, err, "w.yaml:3: redis.tls.cert_file: ")
	require.ErrorIs(t, err, os.ErrNotExist)
	for _, file := range []string{empty, missing, huge} {
		_, err := redis(fmt.Sprintf("password_file: %q", file)).RedisPassword()
		require.ErrorContains(t, err, "w.yaml:3: redis.password_file: ")
	}
	good := filepath.Join(dir, "good")
	require.NoError(t, os.WriteFile(good, []byte(" pass word \r\n"), 0o600))
	got, err := redis(fmt.Sprintf("password_file: %q", good)).RedisPassword()
	require.NoError(t, err)
	assert.Equal(t, " pass word ", got)
	c = load(t, complete("kafka: {brokers: ['127.0.0.1:9092'], sasl: {mechanism: plain, username: u, password: p}}\n"), noEnv)
	got, err = c.SASLPassword()
	require.NoError(t, err)
	assert.Equal(t, "p", got)
}

func certIn(t *testing.T, dir string) string {
	cert, _ := certificate(t, dir, "x")
	return cert
}

func TestLogger(t *testing.T) {
	for level, shown := range map[string]int{"debug": 4, "info": 3, "warn": 2, "error": 1} {
		for format, first := range map[string]byte{"text": 't', "json": '{'} {
			var b bytes.Buffer
			log := Log{Level: level, Format: format}.Logger(&b, Log{Level: level}.Least())
			log.Debug("m")
			log.Info("m")
			log.Warn("m")
			log.Error("m")
			assert.Equal(t, shown, strings.Count(b.String(), "\n"), level)
			assert.Equal(t, first, b.Bytes()[0])
		}
	}
}

// TestLoadFile: a file that cannot be read is a fault of that file, and a large one is refused.
func TestLoadFile(t *testing.T) {
	_, _, err := LoadFile("testdata/nowhere.yaml", noEnv)
	assert.EqualError(t, err, "testdata/nowhere.yaml: cannot be read: no such file or directory")
	_, _, err = LoadFile("testdata", noEnv)
	assert.EqualError(t, err, "testdata: cannot be read: is a directory")
	large := filepath.Join(t.TempDir(), "large.yaml")
	require.NoError(t, os.WriteFile(large, bytes.Repeat([]byte(" "), 2*MaxFileBytes), 0o600))
	_, _, err = LoadFile(large, noEnv)
	require.ErrorContains(t, err, "larger than 1MiB")
	c, warnings, err := LoadFile("testdata/minimal.golden.yaml", noEnv)
	require.NoError(t, err)
	require.Empty(t, warnings, "what is printed can be read again without a word")
	assert.Equal(t, "adversarial range=0..1 aggregate=first delay=direct policy=robust", c.Learners[0].Fingerprint())
	bold := load(t, complete("learners: {feed: {policy: ftrl, loss_index: rank}}"), noEnv).Learners[0]
	assert.Equal(t, "adversarial range=0..1 aggregate=first delay=bold policy=ftrl loss_index=rank", bold.Fingerprint())
}
