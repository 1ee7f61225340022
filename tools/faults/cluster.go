package faults

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv/kafka"
	"github.com/ranker-worker/ranker-worker/tools/faults/proxy"
)

// Cluster is the workers' environment: three Kafka brokers and a Redis with its replica, each behind
// proxies, and the worker's binary with failpoints. The harness itself does not use the proxies.
type Cluster struct {
	Kafka   *kafka.Cluster
	proxies []proxies // to each broker
	Redis   *Store
	Calm    *Store // without faults, for groups that have another fault of their own
	admin   *kadm.Client
	Session time.Duration // of the group: how long a silent member is waited for

	zombies atomic.Int64 // odd while a broker may answer as the leader that it no longer is

	dir    string
	keep   bool // of dir, after the end
	binary string
	say    func(format string, args ...any)
}

const brokers = 3

// StartCluster starts everything, and builds the worker, in about a quarter of a minute. Directories go below dir; say logs events.
func StartCluster(ctx context.Context, dir string, say func(format string, args ...any)) (_ *Cluster, err error) {
	c := &Cluster{dir: dir, say: say, Session: 3 * time.Second, binary: filepath.Join(dir, "ranker-worker")}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	var start errgroup.Group
	start.Go(func() error { return c.startKafka(ctx, brokers, nil) })
	start.Go(func() (err error) {
		c.Redis, err = startStore(ctx, filepath.Join(dir, "dump.rdb"))
		return err
	})
	start.Go(func() (err error) {
		c.Calm, err = startStore(ctx, filepath.Join(dir, "calm.rdb"))
		return err
	})
	start.Go(func() error { return c.build(ctx) })
	if err := start.Wait(); err != nil {
		return nil, err
	}
	return c, nil
}

// startKafka starts brokers, their proxies, and our own client. Each proxy slot has its own listener, advertised as the proxies' addresses.
func (c *Cluster) startKafka(ctx context.Context, brokers int, env []string) (err error) {
	listener := func(slot int) string { return fmt.Sprintf("WORKERS%d", slot) }
	var listeners []kafka.Listener
	for slot := range proxySlots {
		listeners = append(listeners, kafka.Listener{Name: listener(slot), Protocol: "PLAINTEXT"})
	}
	for range brokers {
		d, err := newProxies("")
		if err != nil {
			return err
		}
		c.proxies = append(c.proxies, d)
		for slot := range proxySlots {
			listeners[slot].Advertised = append(listeners[slot].Advertised, d[slot].Addr())
		}
	}
	c.Kafka, err = kafka.StartCluster(ctx, kafka.Options{
		Listeners: listeners, Env: env,
		Settings: map[string]string{
			// A killed broker may rejoin, and another takes its place, after 3 s.
			"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500",
			"min.insync.replicas": strconv.Itoa(max(1, brokers-1)), "unclean.leader.election.enable": "false",
			"replica.lag.time.max.ms": "5000",
			// Records of 2099 are accepted.
			"log.message.timestamp.after.max.ms":                          "9223372036854775807",
			"transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
			// There are many listeners with little load.
			"num.network.threads": "1",
		},
	}, brokers)
	if err != nil {
		return err
	}
	for i, b := range c.Kafka.Brokers {
		for slot := range proxySlots {
			c.proxies[i][slot].SetTarget(b.ListenerAddrs()[listener(slot)])
		}
	}
	admin, err := c.client()
	if err == nil {
		c.admin = kadm.NewClient(admin)
	}
	return err
}

func (c *Cluster) build(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-tags", "failpoints", "-ldflags", "-s -w", "-o", c.binary,
		"github.com/ranker-worker/ranker-worker/cmd/ranker-worker")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the worker: %w: %s", err, out)
	}
	return nil
}

// client makes a Kafka client without proxies.
func (c *Cluster) client(opts ...kgo.Opt) (*kgo.Client, error) {
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(c.Kafka.Addrs()...), kgo.MetadataMinAge(200 * time.Millisecond), kgo.MetadataMaxAge(5 * time.Second),
		kgo.RetryTimeout(30 * time.Second), kgo.DialTimeout(2 * time.Second),
	}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("make a client of Kafka: %w", err)
	}
	return client, nil
}

// bootstrap returns the proxies' addresses for the worker in a slot.
func (c *Cluster) bootstrap(slot int) []string {
	var addrs []string
	for _, d := range c.proxies {
		addrs = append(addrs, d.of(slot).Addr())
	}
	return addrs
}

// zombieTime is how long a broker that hung may answer as the leader it was.
const zombieTime = 2 * time.Second

// freeze makes a broker hang until thaw. One broker at a time may.
func (c *Cluster) freeze(b *kafka.Broker) error {
	c.zombies.Add(1)
	return b.Pause()
}

// thaw lets it go on, and returns once it knows the present leaders.
func (c *Cluster) thaw(b *kafka.Broker) error {
	defer c.zombies.Add(1)
	err := b.Resume()
	time.Sleep(zombieTime)
	return err
}

// hungSince reports whether a broker may have answered as a former leader since zombies was read. Such an answer may report an old end of a
// topic, and a worker drops parked records that a topic read to its end does not explain.
func (c *Cluster) hungSince(zombies int64) bool {
	return zombies%2 == 1 || zombies != c.zombies.Load()
}

// Heal ends the remains of faults: proxies that misbehave, servers that are away.
func (c *Cluster) Heal(ctx context.Context) error {
	for _, d := range c.proxies {
		d.Heal()
	}
	var all errgroup.Group
	for _, b := range c.Kafka.Brokers {
		if !b.Running() {
			all.Go(func() error { return b.Start(ctx) })
		}
	}
	all.Go(func() error { return c.Redis.heal(ctx) })
	return all.Wait()
}

func (c *Cluster) Close() error {
	var errs []error
	errs = append(errs, c.closeKafka())
	for _, s := range []*Store{c.Redis, c.Calm} {
		if s != nil {
			errs = append(errs, s.Close())
		}
	}
	if !c.keep {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	return errors.Join(errs...)
}

func (c *Cluster) closeKafka() error {
	if c.admin != nil {
		c.admin.Close()
	}
	for _, d := range c.proxies {
		d.Close()
	}
	if c.Kafka != nil {
		return c.Kafka.Close()
	}
	return nil
}

// KeepFiles makes Close keep the workers' configurations and logs, and returns their directory.
func (c *Cluster) KeepFiles() string { c.keep = true; return c.dir }

// proxySlots is the number of workers of a group with proxies of their own to every server; further workers share them.
const proxySlots = 3

// proxies are proxies that misbehave together.
type proxies []*proxy.Proxy

// newProxies makes a proxy for each proxy slot. Without a target they refuse connections.
func newProxies(target string) (d proxies, err error) {
	for range proxySlots {
		p, err := proxy.New(target)
		if err != nil {
			d.Close()
			return nil, err
		}
		d = append(d, p)
	}
	return d, nil
}

func (d proxies) of(slot int) *proxy.Proxy { return d[slot%proxySlots] }

func (d proxies) each(do func(*proxy.Proxy)) {
	for _, p := range d {
		do(p)
	}
}

// Slow delays all requests by 200 ms.
func (d proxies) Slow(on bool) {
	d.each(func(p *proxy.Proxy) { p.SetDelay(map[bool]time.Duration{true: 200 * time.Millisecond}[on]) })
}

// Methods of proxy.Proxy, applied to all.

func (d proxies) SetTarget(target string)          { d.each(func(p *proxy.Proxy) { p.SetTarget(target) }) }
func (d proxies) Refuse(on bool)                   { d.each(func(p *proxy.Proxy) { p.Refuse(on) }) }
func (d proxies) Silence(on bool)                  { d.each(func(p *proxy.Proxy) { p.Silence(on) }) }
func (d proxies) Deafen(on bool)                   { d.each(func(p *proxy.Proxy) { p.Deafen(on) }) }
func (d proxies) Cut(chance float64, r *rand.Rand) { d.each(func(p *proxy.Proxy) { p.Cut(chance, r) }) }
func (d proxies) Heal()                            { d.each((*proxy.Proxy).Heal) }
func (d proxies) Close()                           { d.each((*proxy.Proxy).Close) }
