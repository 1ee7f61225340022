package broker

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metadataapi "github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// A leader change costs one error: the next try goes to the new leader.
func TestLeaderChange(t *testing.T) {
	env := testenv.Embedded(t, kfake.NumBrokers(3))
	c := ready(t, env)
	p := c.Partition(0)
	_, owner := fence(t, p)
	topic := c.o.Topics[event.Rankings]
	for i := range int32(6) {
		require.NoError(t, env.Fake.MoveTopicPartition(topic, 0, i%3))
		r := rankings(owner, int(i), "x")
		got, err := p.Produce(soon(t), r)
		if err != nil {
			got, err = p.Produce(soon(t), r)
			require.NoError(t, err)
		}
		require.NoError(t, env.Fake.MoveTopicPartition(topic, 0, (i+1)%3))
		f, err := fetchOnce(t, p, event.Rankings, got.BaseOffset, 1000)
		if err != nil {
			f, err = fetchOnce(t, p, event.Rankings, got.BaseOffset, 1000)
		}
		require.NoError(t, err)
		require.Len(t, f.Records, 1)
	}
	d, err := p.Describe(soon(t))
	require.NoError(t, err)
	require.EqualValues(t, 7, d.Topics[event.Rankings].End, "6 and the fence's marker")
}

// resetAt is when a client has last dropped its connections.
func resetAt(c *Client) time.Time {
	c.watch.Lock()
	defer c.watch.Unlock()
	return c.watch.resetAt
}

// After a restart of the broker, and after a pause in which its connections hung, things go on by themselves; the
// producer's state has survived.
func TestBrokerRestartAndPause(t *testing.T) {
	own := testenv.OwnKafka(t)
	p := ready(t, testenv.Env{Kafka: own.Addr}).Partition(0)
	_, owner := fence(t, p)
	r := rankings(owner, 0, "a")
	_, err := p.Produce(soon(t), r)
	require.NoError(t, err)
	own.Kill()
	_, err = p.Produce(within(t, time.Second), r)
	require.Error(t, err)
	own.Start()
	eventually(t, "the copy after a restart", func() error { _, err := p.Produce(within(t, 2*time.Second), r); return err })
	eventually(t, "the next after a restart", func() error {
		_, err := p.Produce(within(t, 2*time.Second), rankings(owner, 1, "b"))
		return err
	})
	before := resetAt(p.c)
	own.Pause()
	eventually(t, "connections dropped during a pause", func() error {
		_, err := p.Produce(within(t, 100*time.Millisecond), rankings(owner, 2, "c"))
		if resetAt(p.c).After(before) {
			return nil
		}
		return errors.Join(errors.New("not yet"), err)
	})
	own.Resume()
	eventually(t, "the last after a pause", func() error {
		_, err := p.Produce(within(t, 2*time.Second), rankings(owner, 2, "c"))
		return err
	})
	require.Equal(t, []string{"a", "b", "c"}, values(fetchTo(t, p, event.Rankings, 0, 1<<20, toEnd)))
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// Each SASL mechanism, over TLS with a private CA; wrong passwords are refused.
func TestSecurity(t *testing.T) {
	server, caFile := certificate(t)
	for mechanism, name := range map[string]string{"plain": "PLAIN", "scram-sha-256": "SCRAM-SHA-256", "scram-sha-512": "SCRAM-SHA-512"} {
		t.Run(mechanism, func(t *testing.T) {
			env := testenv.Embedded(t, kfake.EnableSASL(), kfake.Superuser(name, "me", "secret"), kfake.TLS(server))
			secure := func(password string) func(*Options) {
				return func(o *Options) {
					ca, err := os.ReadFile(caFile)
					require.NoError(t, err)
					o.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
					require.True(t, o.TLS.RootCAs.AppendCertsFromPEM(ca))
					o.SASL, err = NewSASL(mechanism, "me", func() (string, error) { return password, nil })
					require.NoError(t, err)
				}
			}
			p := ready(t, env, secure("secret")).Partition(0)
			_, owner := fence(t, p)
			_, err := p.Produce(soon(t), rankings(owner, 0, "a"))
			require.NoError(t, err)

			o := options(t, env.Kafka)
			secure("wrong")(&o)
			_, err = client(t, o).Check(soon(t))
			require.Error(t, err)
		})
	}
	_, err := NewSASL("gssapi", "", func() (string, error) { return "", nil })
	require.ErrorContains(t, err, "plain, scram-sha-256 or scram-sha-512")
	_, err = NewSASL("plain", "", func() (string, error) { return "", os.ErrNotExist })
	require.ErrorIs(t, err, os.ErrNotExist)
}

// certificate makes one for the loopback address that is its own CA.
func certificate(t *testing.T) (server *tls.Config, caFile string) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, caFile
}

func TestClosedClient(t *testing.T) {
	c := client(t, options(t, "127.0.0.1:1"))
	c.Close()
	_, err := c.Check(soon(t))
	require.ErrorIs(t, err, ErrClosed)
}

// resetting is an address whose first look-up, which a request makes before it takes connections, resets the client.
type resetting struct {
	net.Addr
	reset func()
}

func (a resetting) String() string { a.reset(); return a.Addr.String() }

type countedConn struct {
	net.Conn
	open *atomic.Int64
	once *sync.Once
}

func (c countedConn) Close() error { c.once.Do(func() { c.open.Add(-1) }); return c.Conn.Close() }

// TestReset_BeforeARequestTakesConnections: a request makes connections of the transport that Reset has just replaced. They end with it.
func TestReset_BeforeARequestTakesConnections(t *testing.T) {
	p := ready(t, testenv.Embedded(t)).Partition(0)
	c, open, dialled, once := client(t, p.c.o), new(atomic.Int64), new(atomic.Int64), new(sync.Once)
	dial := c.transport.Load().Dial
	c.transport.Load().Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		open.Add(1)
		dialled.Add(1)
		return countedConn{conn, open, new(sync.Once)}, nil
	}
	_, err := watchedTransport{c}.RoundTrip(soon(t), resetting{c.addr, func() { once.Do(c.Reset) }}, &metadataapi.Request{})
	require.NoError(t, err)
	require.Positive(t, dialled.Load())
	eventually(t, "the replaced transport's connections end", func() error {
		if n := open.Load(); n > 0 {
			return fmt.Errorf("%d are open", n)
		}
		return nil
	})
}

func TestOptionsAreChecked(t *testing.T) {
	good := options(t, "127.0.0.1:1")
	for _, change := range []func(*Options){
		func(o *Options) { o.Brokers = nil },
		func(o *Options) { o.Group = "" },
		func(o *Options) { o.Topics[event.Payoffs] = "" },
	} {
		o := good
		change(&o)
		_, err := New(o)
		require.Error(t, err)
	}
}

// An error of an unreachable broker names the address.
func TestUnreachableBrokersAreNamed(t *testing.T) {
	const address = "127.0.0.1:1"
	c := client(t, options(t, address))
	_, err := c.Partitions(soon(t), event.Impressions)
	require.ErrorContains(t, err, address)
	_, err = c.NewProducer(soon(t))
	require.ErrorContains(t, err, address)
	_, err = c.Partition(0).Produce(soon(t), task.Produce{Topic: event.Impressions, Producer: task.Producer{ID: -1, Epoch: -1}, Sequence: -1,
		Messages: []task.OutMessage{{Value: []byte("{}")}}})
	require.ErrorContains(t, err, address)
}
