package kafka

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv/proc"
)

// Options of a broker. The zero value is right for tests.
type Options struct {
	// Heap of the JVM, as for -Xmx; "": 512m.
	Heap string
	// Bench lets the JVM optimise fully and collect garbage in parallel. Without it, it compiles fast and little, which halves the time to
	// start and costs throughput.
	Bench bool
	// Settings are merged into server.properties.
	Settings map[string]string
	// JVM holds further flags.
	JVM []string
	Env []string
	// Listeners are added to the plaintext one, which this package uses.
	Listeners []Listener
	// SCRAM are initial users, such as "SCRAM-SHA-256=[name=worker,password=secret]".
	SCRAM []string

	classes string // the file of archive, or "" while it is made
}

type Listener struct {
	Name     string // in capitals
	Protocol string // SSL, SASL_PLAINTEXT or SASL_SSL
	// Settings of this listener alone, named without its prefix, such as "ssl.client.auth".
	Settings map[string]string
	// Advertised are the addresses for clients, host:port by broker, for listeners behind a proxy. Empty: the listeners' own.
	Advertised []string
}

const (
	startTimeout = 90 * time.Second // ten times the time on a busy machine with two cores
	stopGrace    = 20 * time.Second
	startTries   = 5
)

// Broker is an Apache Kafka, running or stopped. Its methods are not safe for concurrent use.
type Broker struct {
	opts    Options
	java    string
	jars    string
	dir     string // configuration, log and data
	cluster string // KRaft's id of this cluster, which identifies our broker
	node    int    // from 1 on
	voters  string // of KRaft's quorum: every broker of the cluster
	brokers int    // of the cluster
	port    int
	control int
	more    []int // ports of Options.Listeners
	process *proc.Process
	running bool
}

// Start fetches Kafka if necessary, starts a broker with an empty log and waits until it answers.
func Start(ctx context.Context, opts Options) (*Broker, error) {
	java, jars, err := installed(ctx, &opts)
	if err != nil {
		return nil, err
	}
	var failed error
	for range startTries {
		b, err := newBroker(ctx, opts, java, jars)
		if err == nil {
			return b, nil
		}
		failed = err
		// Only a port that was taken meanwhile is worth another try.
		if !errors.Is(err, proc.ErrExited) || ctx.Err() != nil {
			break
		}
	}
	return nil, failed
}

func newBroker(ctx context.Context, opts Options, java, jars string) (*Broker, error) {
	all, err := prepare(opts, java, jars, 1)
	if err != nil {
		return nil, err
	}
	b := all[0]
	err = b.format(ctx)
	if err == nil {
		err = b.Start(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// prepare makes the brokers of a cluster, with ports and directories of their own, neither formatted nor started.
func prepare(opts Options, java, jars string, brokers int) ([]*Broker, error) {
	each := 2 + len(opts.Listeners)
	ports, err := proc.FreePorts(brokers * each)
	if err != nil {
		return nil, err
	}
	cluster := newClusterID()
	var all []*Broker
	var voters []string
	for i := range brokers {
		dir, err := os.MkdirTemp("", "ranker-kafka-")
		if err != nil {
			return nil, fmt.Errorf("make a directory for Apache Kafka: %w", err)
		}
		own := ports[i*each : (i+1)*each]
		all = append(all, &Broker{opts: opts, java: java, jars: jars, dir: dir, cluster: cluster, node: i + 1,
			brokers: brokers, port: own[0], control: own[1], more: own[2:]})
		voters = append(voters, fmt.Sprintf("%d@127.0.0.1:%d", i+1, own[1]))
	}
	for _, b := range all {
		b.voters = strings.Join(voters, ",")
	}
	return all, nil
}

// newClusterID returns a UUID in Kafka's format: 16 bytes in URL-safe base 64, without a leading dash, which its tools would take for an
// option.
func newClusterID() string {
	var id [16]byte
	_, _ = rand.Read(id[:]) // never fails
	id[0] &= 0x7f           // a dash would be 62, the highest bit is then set
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// settings returns those of a broker that is a controller too. All listeners are on loopback.
func (b *Broker) settings() map[string]string {
	// Every broker has a replica of internal topics, and one broker may be away.
	copies, insync := strconv.Itoa(b.brokers), strconv.Itoa(max(1, b.brokers-1))
	s := map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        strconv.Itoa(b.node),
		"controller.quorum.voters":       b.voters,
		"listeners":                      fmt.Sprintf("PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", b.port, b.control),
		"advertised.listeners":           fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", b.port),
		"controller.listener.names":      "CONTROLLER",
		"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
		"log.dirs":                       b.Data(),
		"auto.create.topics.enable":      "false",

		"offsets.topic.replication.factor":                 copies,
		"transaction.state.log.replication.factor":         copies,
		"transaction.state.log.min.isr":                    insync,
		"share.coordinator.state.topic.replication.factor": copies,
		"share.coordinator.state.topic.min.isr":            insync,

		// Fewer partitions than the default of 50 are created faster, and are enough.
		"offsets.topic.num.partitions":         "4",
		"transaction.state.log.num.partitions": "4",

		// Groups form and rebalance without waiting for members that a test never starts, and sessions of killed members may be short.
		"group.initial.rebalance.delay.ms": "0",
		"group.min.session.timeout.ms":     "1000",

		// Frequent enough for tests in which retention lets the log's start pass an offset.
		"log.retention.check.interval.ms": "1000",
		"log.segment.delete.delay.ms":     "1000",

		// The cleaner's default of 128 MiB would not fit into the heap.
		"log.cleaner.dedupe.buffer.size": strconv.Itoa(16 << 20),
	}
	for i, l := range b.opts.Listeners {
		advertised := b.listenerAddr(i)
		if len(l.Advertised) > 0 {
			advertised = l.Advertised[b.node-1]
		}
		s["listeners"] += fmt.Sprintf(",%s://%s", l.Name, b.listenerAddr(i))
		s["advertised.listeners"] += fmt.Sprintf(",%s://%s", l.Name, advertised)
		s["listener.security.protocol.map"] += "," + l.Name + ":" + l.Protocol
		for key, value := range l.Settings {
			s["listener.name."+strings.ToLower(l.Name)+"."+key] = value
		}
	}
	maps.Copy(s, b.opts.Settings)
	return s
}

// property escapes a value for a Java properties file.
var property = strings.NewReplacer("\\", "\\\\", "\n", "\\n", "\r", "\\r")

// Data is the directory with the partitions' logs.
func (b *Broker) Data() string { return filepath.Join(b.dir, "data") }

func (b *Broker) propertiesPath() string { return filepath.Join(b.dir, "server.properties") }

// format writes the configuration and prepares the data directory.
func (b *Broker) format(ctx context.Context) error {
	s := b.settings()
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(s)) {
		fmt.Fprintf(&text, "%s=%s\n", key, property.Replace(s[key]))
	}
	if err := os.WriteFile(b.propertiesPath(), []byte(text.String()), 0o600); err != nil {
		return fmt.Errorf("write Kafka's configuration: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	args := append(b.jvm("128m"), "kafka.tools.StorageTool", "format", "-t", b.cluster, "-c", b.propertiesPath())
	for _, user := range b.opts.SCRAM {
		args = append(args, "--add-scram", user)
	}
	cmd := exec.CommandContext(ctx, b.java, args...)
	cmd.Dir = b.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("format Kafka's data directory: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (b *Broker) jvm(heap string) []string {
	args := []string{"-Xmx" + heap, "-Djava.awt.headless=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS", markerSender}
	if b.opts.classes != "" {
		args = append(args, "-XX:SharedArchiveFile="+b.opts.classes)
	}
	if b.opts.Bench {
		args = append(args, "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
	} else {
		args = append(args, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
	}
	args = append(args, b.opts.JVM...)
	return append(args, "-cp", filepath.Join(b.jars, "*"))
}

// Addr is the bootstrap address, host:port, which a restart keeps.
func (b *Broker) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port)) }

// ListenerAddrs returns the addresses of Options.Listeners by name, which a restart keeps.
func (b *Broker) ListenerAddrs() map[string]string {
	addrs := make(map[string]string, len(b.opts.Listeners))
	for i, l := range b.opts.Listeners {
		addrs[l.Name] = b.listenerAddr(i)
	}
	return addrs
}

func (b *Broker) listenerAddr(i int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.more[i]))
}

// Start starts a stopped or killed broker with the same address and data, and waits until it answers.
func (b *Broker) Start(ctx context.Context) error {
	if b.running {
		return errors.New("start Apache Kafka: it is running")
	}
	heap := b.opts.Heap
	if heap == "" {
		heap = "512m"
	}
	process, err := proc.Start(proc.Config{
		Name: "Apache Kafka " + Version, Path: b.java, Args: append(b.jvm(heap), "kafka.Kafka", b.propertiesPath()),
		Env: b.opts.Env, Dir: b.dir, Log: "kafka.log", RemoveDir: true,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := process.AwaitReady(ctx, b.probe); err != nil {
		return errors.Join(err, process.Kill())
	}
	b.process, b.running = process, true
	return nil
}

// probe requests the metadata, which name the cluster, and the partitions from before a restart.
func (b *Broker) probe(ctx context.Context) error {
	transport := &kafkago.Transport{DialTimeout: time.Second}
	defer transport.CloseIdleConnections()
	client := &kafkago.Client{Addr: kafkago.TCP(b.Addr()), Transport: transport}
	meta, err := client.Metadata(ctx, &kafkago.MetadataRequest{})
	switch {
	case err != nil:
		return err
	case meta.ClusterID != b.cluster:
		return fmt.Errorf("the Kafka on %s is not ours: cluster %q", b.Addr(), meta.ClusterID)
	case len(meta.Brokers) == 0:
		return fmt.Errorf("the Kafka on %s has not joined its cluster yet", b.Addr())
	}
	return Serves(ctx, client, nil)
}

// Stop ends the broker in an orderly way. Its data stay until Close.
func (b *Broker) Stop() error {
	if !b.running {
		return nil
	}
	b.running = false
	return b.process.Stop(stopGrace)
}

// Kill ends the broker at once. Its data stay until Close.
func (b *Broker) Kill() error {
	if !b.running {
		return nil
	}
	b.running = false
	return b.process.Kill()
}

func (b *Broker) Restart(ctx context.Context) error {
	if err := b.Stop(); err != nil {
		return err
	}
	return b.Start(ctx)
}

// FillDisk makes every write to the broker's files fail, like a full disk, and returns once the broker has given up. Start restores the
// room.
func (b *Broker) FillDisk(ctx context.Context) error {
	if err := b.process.LimitFiles(1); err != nil {
		return err
	}
	select {
	case <-b.process.Done():
		b.running = false
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the broker goes on although its disk is full: %w; its log ends with:\n%s", ctx.Err(), b.Tail())
	}
}

// Pause freezes the broker: connections stay open without answers.
func (b *Broker) Pause() error { return b.process.Pause() }

func (b *Broker) Resume() error { return b.process.Resume() }

// Running reports whether the broker was started, and not ended since by one of these methods.
func (b *Broker) Running() bool { return b.running }

// Tail returns the end of the broker's log, for messages.
func (b *Broker) Tail() string { return b.process.Tail(20) }

// PID returns the process id of the present or last run.
func (b *Broker) PID() int { return b.process.PID() }

// Close kills the broker, which is faster than Stop, and removes its data.
func (b *Broker) Close() error { return errors.Join(b.Kill(), os.RemoveAll(b.dir)) }
