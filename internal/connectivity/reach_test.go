package connectivity_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/ranker-worker/ranker-worker/internal/connectivity"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

// certificate is one that a server of this test can show, and a configuration that trusts it.
func certificate(t *testing.T) (serves, trusts *tls.Config) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	t.Cleanup(s.Close)
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	return &tls.Config{Certificates: s.TLS.Certificates, MinVersion: tls.VersionTLS12}, &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

func fake(t *testing.T, opts ...kfake.Opt) string {
	t.Helper()
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(1))...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c.ListenAddrs()[0]
}

// dial connects as a worker does.
func dial(t *testing.T, address string, secure *tls.Config, mechanism sasl.Mechanism) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	conn, err := (&kafka.Dialer{TLS: secure, SASLMechanism: mechanism}).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	require.NoError(t, conn.SetDeadline(time.Now().Add(2*time.Second)))
	_, err = conn.ReadPartitions()
	return err
}

// TestKafka: each fault of a connection to a broker is explained, with its setting.
func TestKafka(t *testing.T) {
	serves, trusts := certificate(t)
	open, secured := fake(t), fake(t, kfake.TLS(serves))
	login := fake(t, kfake.EnableSASL(), kfake.User("PLAIN", "u", "p"))
	const nobody = "127.0.0.1:1"
	mini := miniredis.RunT(t)
	for name, c := range map[string]struct {
		address   string
		tls       *tls.Config
		mechanism sasl.Mechanism
		says      string
	}{
		"plain":              {open, nil, nil, ""},
		"tls":                {secured, trusts, nil, ""},
		"sasl":               {login, nil, plain.Mechanism{Username: "u", Password: "p"}, ""},
		"tls to plaintext":   {open, trusts, nil, "the broker at " + open + " speaks plaintext there: remove kafka.tls, or use its TLS port"},
		"plaintext to tls":   {secured, nil, nil, "the broker at " + secured + " speaks TLS there: set kafka.tls, or use its plaintext port"},
		"untrusted":          {secured, &tls.Config{MinVersion: tls.VersionTLS12}, nil, "set kafka.tls.ca_file"},
		"another name":       {secured, &tls.Config{RootCAs: trusts.RootCAs, ServerName: "other.example", MinVersion: tls.VersionTLS12}, nil, "kafka.tls.server_name"},
		"no sasl":            {login, nil, nil, "set kafka.sasl (it offers PLAIN"},
		"wrong password":     {login, nil, plain.Mechanism{Username: "u", Password: "x"}, "kafka.sasl.password"},
		"nobody":             {nobody, nil, nil, "nothing listens at " + nobody},
		"a Redis":            {mini.Addr(), nil, nil, "no broker that this worker can talk to"},
		"no such name":       {"no-such-host.invalid:9092", nil, nil, `no address is known of "no-such-host.invalid"`},
		"a Redis, with TLS":  {mini.Addr(), trusts, nil, "no broker that this worker can talk to"},
		"no sasl, plaintext": {login, trusts, nil, "speaks plaintext there"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := dial(t, c.address, c.tls, c.mechanism)
			if c.says == "" {
				require.NoError(t, err)
				require.NoError(t, connectivity.Why(t.Context(), connectivity.Server{}, nil))
				return
			}
			require.Error(t, err)
			s := connectivity.Server{Kind: connectivity.Kafka, Address: c.address, TLS: c.tls}
			if c.mechanism != nil {
				s.SASL = c.mechanism.Name()
			}
			why := connectivity.Why(t.Context(), s, err)
			require.ErrorContains(t, why, c.says)
			require.ErrorIs(t, why, err)
			require.Equal(t, why, connectivity.Why(t.Context(), s, why), "once")
		})
	}
}

// TestRedis: likewise of Redis.
func TestRedis(t *testing.T) {
	serves, trusts := certificate(t)
	open := miniredis.RunT(t)
	secured, err := miniredis.RunTLS(serves)
	require.NoError(t, err)
	t.Cleanup(secured.Close)
	login := miniredis.RunT(t)
	login.RequireUserAuth("u", "p")
	for name, c := range map[string]struct {
		address  string
		tls      *tls.Config
		password string
		says     string
	}{
		"tls to plaintext": {open.Addr(), trusts, "", "speaks plaintext there: write redis:// in redis.url"},
		"plaintext to tls": {secured.Addr(), nil, "", "speaks TLS there: write rediss:// in redis.url"},
		"untrusted":        {secured.Addr(), &tls.Config{MinVersion: tls.VersionTLS12}, "", "set redis.tls.ca_file"},
		"no password":      {login.Addr(), nil, "", "wants a password"},
		"wrong password":   {login.Addr(), nil, "x", "does not take this user and password"},
		"a broker":         {fake(t), nil, "", "takes connections and says nothing: it is the port of something else"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &redis.Options{Addr: c.address, TLSConfig: c.tls, Password: c.password, Protocol: 2, DisableIdentity: true, MaxRetries: -1,
				ReadTimeout: time.Second}
			if c.password != "" {
				o.Username = "u"
			}
			client := redis.NewClient(o)
			defer client.Close()
			err := client.Get(t.Context(), "k").Err()
			require.Error(t, err)
			why := connectivity.Why(t.Context(), connectivity.Server{Kind: connectivity.Redis, Address: c.address, TLS: c.tls}, err)
			require.ErrorContains(t, why, c.says)
		})
	}
}

// TestSilence: a server that accepts connections and sends nothing is reported as hanging. Errors not about
// connections are unchanged.
func TestSilence(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	why := connectivity.Why(t.Context(), connectivity.Server{Kind: connectivity.Kafka, Address: l.Addr().String()}, io.EOF)
	require.ErrorContains(t, why, "says nothing")
	other := errors.New("other")
	require.Equal(t, other, connectivity.Why(t.Context(), connectivity.Server{Kind: connectivity.Kafka, Address: l.Addr().String()}, other))
}

// TestRealServers hang up in ways of their own.
func TestRealServers(t *testing.T) {
	_, trusts := certificate(t)
	broker, store := testenv.Kafka(t).Addr, testenv.Redis(t).Addr
	err := dial(t, broker, trusts, nil)
	require.ErrorContains(t, connectivity.Why(t.Context(), connectivity.Server{Kind: connectivity.Kafka, Address: broker, TLS: trusts}, err), "speaks plaintext there: remove kafka.tls")
	err = dial(t, broker, nil, plain.Mechanism{Username: "u", Password: "p"})
	require.ErrorContains(t, connectivity.Why(t.Context(), connectivity.Server{Kind: connectivity.Kafka, Address: broker, SASL: "PLAIN"}, err), "remove kafka.sasl")
	err = dial(t, store, nil, nil)
	require.ErrorContains(t, connectivity.Why(t.Context(), connectivity.Server{Kind: connectivity.Kafka, Address: store}, err), "takes connections and says nothing")
	client := redis.NewClient(&redis.Options{Addr: store, TLSConfig: trusts, Protocol: 2, DisableIdentity: true, MaxRetries: -1, ReadTimeout: time.Second})
	defer client.Close()
	err = client.Get(t.Context(), "k").Err()
	require.ErrorContains(t, connectivity.Why(t.Context(), connectivity.Server{Kind: connectivity.Redis, Address: store, TLS: trusts}, err), "speaks plaintext there: write redis://")
}
