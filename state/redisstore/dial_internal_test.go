package redisstore

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDial_SaysWhyTheServerHangsUp: a server that wants a certificate says so when the client is writing already, and resets
// the connection. Were the alert not read, only the reset would be known.
func TestDial_SaysWhyTheServerHangsUp(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
		ClientAuth: tls.RequireAnyClientCert})
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1)) // shakes hands, in vain
			c.Close()
		}
	}()
	o := Options{TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS13}}.withDefaults()
	for range 50 {
		c, err := o.dialer()(t.Context(), "tcp", l.Addr().String())
		require.NoError(t, err)
		for err == nil {
			_, err = c.Write(make([]byte, 16<<10))
		}
		require.ErrorContains(t, err, "certificate required")
		c.Close()
	}
}

// TestMemoryUsed: of maxmemory, or else of the machine's memory; 0 where the server does not say.
func TestMemoryUsed(t *testing.T) {
	for text, want := range map[string]float64{
		"used_memory:25\r\nmaxmemory:100\r\ntotal_system_memory:1000\r\n": 0.25,
		"used_memory:25\r\nmaxmemory:0\r\ntotal_system_memory:1000\r\n":   0.025,
		"used_memory:25\r\n": 0,
		"":                   0,
	} {
		require.Equal(t, want, memoryUsed(parseInfo(text)), "%q", text)
	}
}
