package doctor_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/internal/doctor"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/broker"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// setting holds the values of a test's configuration.
type setting struct {
	brokers, kafka, redis, redisMore, group string
	experiment                              string // of learners feed and front; "": there is only feed
}

func of(t *testing.T, env testenv.Env) setting {
	return setting{brokers: env.Kafka, redis: env.RedisURL(), group: testenv.Unique(t, "g")}
}

func (s setting) file(t *testing.T) string {
	t.Helper()
	topic := func(name string) string { return s.group + "-" + name }
	text := fmt.Sprintf(`kafka:
  brokers: [%q]
  group: %s
  topics: {impressions: %s, selections: %s, payoffs: %s, rankings: %s}
  %s
redis: {url: %q%s}
learners: {feed: {payoffs: stochastic}}
`, s.brokers, s.group, topic("i"), topic("s"), topic("p"), topic("r"), s.kafka, s.redis, s.redisMore)
	if s.experiment != "" {
		text = strings.Replace(text, "{feed: {payoffs: stochastic}}", "{feed: {payoffs: stochastic, default: true}, front: {payoffs: stochastic}}", 1) +
			"experiments: {feed: " + s.experiment + "}\n"
	}
	file := filepath.Join(t.TempDir(), "worker.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// make makes the topics.
func (s setting) make(t *testing.T, spec broker.Spec) {
	t.Helper()
	b := s.client(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := b.Create(ctx, spec)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := b.Partition(int32(max(spec.Partitions, 1) - 1)).Describe(ctx)
		return err == nil
	}, time.Minute, 10*time.Millisecond)
}

func (s setting) client(t *testing.T) *broker.Client {
	t.Helper()
	cfg, _, err := config.LoadFile(s.file(t), os.LookupEnv)
	require.NoError(t, err)
	b, err := app.NewBroker(cfg)
	require.NoError(t, err)
	t.Cleanup(b.Close)
	return b
}

// examine gives the lines, faults first as "fault area: message".
func (s setting) examine(t *testing.T, opt doctor.Options) (lines string, faulty bool) {
	t.Helper()
	found := doctor.Examine(t.Context(), s.file(t), os.LookupEnv, opt)
	var b strings.Builder
	for _, f := range found {
		fmt.Fprintf(&b, "%s %s: %s\n", f.Status, f.Area, f.Message)
	}
	return b.String(), doctor.Faulty(found)
}

// finds wants lines that begin and go on as given, each "status area" and a part of the message.
func (s setting) finds(t *testing.T, opt doctor.Options, wants ...[2]string) {
	t.Helper()
	lines, faulty := s.examine(t, opt)
	for _, want := range wants {
		found := false
		for line := range strings.Lines(lines) {
			found = found || strings.HasPrefix(line, want[0]+": ") && strings.Contains(line, want[1])
		}
		require.True(t, found, "%q in\n%s", want, lines)
		if strings.HasPrefix(want[0], "fault") {
			require.True(t, faulty)
		}
	}
}

var three = broker.Spec{Partitions: 3, Replication: 1}

// TestSound: a sound setting has no faults, on any pair, and is left as it was.
func TestSound(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		s := of(t, env)
		s.make(t, three)
		said := 0
		lines, faulty := s.examine(t, doctor.Options{Progress: func(string) { said++ }})
		require.False(t, faulty, lines)
		for _, want := range []string{"ok configuration: ", "ok kafka: " + env.Kafka + " answers, in plaintext, without SASL", "ok kafka: 1 broker of the cluster answered",
			"ok kafka: groups and transactions are coordinated", "ok rights: ", "-i: 3 partitions, kept for ", "ok partitioners: too few", "ok clock: ",
			"redis: " + env.Redis, "ok group: no worker is running"} {
			require.Contains(t, lines, want)
		}
		require.Positive(t, said)
		client := redis.NewClient(&redis.Options{Addr: env.Redis})
		defer client.Close()
		left, err := client.Keys(t.Context(), "{"+s.group+"*").Result()
		require.NoError(t, err)
		require.Empty(t, left)
	})
}

// TestLackingRequests: requests that a broker does not offer are named, with the consequence, as is a product.
func TestLackingRequests(t *testing.T) {
	env := testenv.Embedded(t, kfake.MaxVersions(kversion.V2_5_0()), kfake.ClusterID("redpanda.1"))
	s := of(t, env)
	s.finds(t, doctor.Options{}, [2]string{"warning kafka", "does not offer DescribeQuorum: workers do not compare"},
		[2]string{"warning kafka", "does not offer DescribeTransactions: "}, [2]string{"warning kafka", "this is Redpanda: "})
	old := of(t, testenv.Embedded(t, kfake.MaxVersions(kversion.V2_0_0())))
	old.finds(t, doctor.Options{}, [2]string{"fault kafka", "a worker needs InitProducerID in a version from 3 to 4"})
}

func TestConfigurationComesFirst(t *testing.T) {
	s := setting{brokers: "127.0.0.1", redis: "redis://127.0.0.1:1/0", group: "g"}
	lines, faulty := s.examine(t, doctor.Options{})
	require.True(t, faulty)
	require.Contains(t, lines, "fault configuration: ")
	require.Contains(t, lines, "kafka.brokers")
	require.Equal(t, 1, strings.Count(lines, "\n"), "nothing else is looked at")
	s.brokers = "127.0.0.1:1"
	s.kafka = "sasl: {mechanism: plain, username: u, password: p}"
	s.finds(t, doctor.Options{}, [2]string{"warning configuration", "password"}, [2]string{"fault kafka", "nothing listens at 127.0.0.1:1"},
		[2]string{"fault redis", "nothing listens at 127.0.0.1:1"})
}

// certificate is one that a server of this test can show, and the file of its authority.
func certificate(t *testing.T) (serves *tls.Config, ca string) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	t.Cleanup(s.Close)
	ca = filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	return &tls.Config{Certificates: s.TLS.Certificates, MinVersion: tls.VersionTLS12}, ca
}

// TestTLS: a mismatch of plaintext and TLS is explained, in both directions.
func TestTLS(t *testing.T) {
	serves, ca := certificate(t)
	env := testenv.Embedded(t, kfake.TLS(serves))
	secured, err := miniredis.RunTLS(serves)
	require.NoError(t, err)
	t.Cleanup(secured.Close)
	s := of(t, env)
	s.redis = "redis://" + secured.Addr() + "/0"
	s.finds(t, doctor.Options{}, [2]string{"fault kafka", "speaks TLS there: set kafka.tls"}, [2]string{"fault redis", "speaks TLS there: write rediss://"})

	s.kafka, s.redis, s.redisMore = fmt.Sprintf("tls: {ca_file: %q}", ca), "rediss://"+secured.Addr()+"/0", fmt.Sprintf(", tls: {ca_file: %q}", ca)
	s.make(t, three)
	s.finds(t, doctor.Options{}, [2]string{"ok kafka", "answers, by TLS"}, [2]string{"ok redis", "reached by TLS"})

	plain := testenv.Embedded(t)
	s.brokers, s.redis = plain.Kafka, "rediss://"+plain.Redis+"/0"
	s.finds(t, doctor.Options{}, [2]string{"fault kafka", "speaks plaintext there: remove kafka.tls"},
		[2]string{"fault redis", "speaks plaintext there: write redis://"})
}

func TestWrongPasswords(t *testing.T) {
	env := testenv.Embedded(t, kfake.EnableSASL(), kfake.User("PLAIN", "u", "p"))
	env.Mini.RequireUserAuth("u", "p")
	s := of(t, env)
	s.kafka, s.redis = "sasl: {mechanism: plain, username: u, password: x}", "redis://u:x@"+env.Redis+"/0"
	s.finds(t, doctor.Options{}, [2]string{"fault kafka", "see kafka.sasl.username"}, [2]string{"fault redis", "does not take this user and password"})
	s.kafka = ""
	s.finds(t, doctor.Options{}, [2]string{"fault kafka", "set kafka.sasl (it offers PLAIN"})
}

func TestTopics(t *testing.T) {
	env := testenv.Embedded(t)
	s := of(t, env)
	s.finds(t, doctor.Options{}, [2]string{"fault topics", `-i" does not exist: create it with`})
	testenv.Topics(t, env.Kafka, 2, s.group+"-s", s.group+"-i?cleanup.policy=compact&retention.ms=3600000")
	s.make(t, broker.Spec{Replication: 1})
	testenv.Topics(t, env.Kafka, 3, s.group+"-other")
	s.finds(t, doctor.Options{}, [2]string{"fault topics", "is compacted"}, [2]string{"warning topics", "-i: 2 partitions, kept for 1h,"})

	kept := of(t, env)
	kept.make(t, broker.Spec{Partitions: 2, Replication: 1, Retention: 14 * 24 * time.Hour})
	kept.finds(t, doctor.Options{}, [2]string{"ok topics", "-r: 2 partitions, kept for 336h"})
	kept.experiment = "{arms: {feed: 0.5, front: 0.5}, control: front}"
	for _, topic := range []string{"-i", "-s", "-p", "-r"} {
		kept.finds(t, doctor.Options{}, [2]string{"warning topics", topic + ": 2 partitions, kept for 336h, records of up to 1048588 bytes: lift and evaluate count"})
	}

	unequal := of(t, testenv.Embedded(t))
	testenv.Topics(t, unequal.brokers, 3, unequal.group+"-p")
	testenv.Topics(t, unequal.brokers, 2, unequal.group+"-i")
	unequal.finds(t, doctor.Options{}, [2]string{"fault topics", `has partition count 3, but "`},
		[2]string{"fault topics", "then run `ranker-worker state reshard`, if the group has run; if it has not, make a topic with records again"})
}

// publish writes 60 records to a topic.
func (s setting) publish(t *testing.T, topic string, by kafka.Balancer) {
	t.Helper()
	w := &kafka.Writer{Addr: kafka.TCP(s.brokers), Topic: s.group + topic, Balancer: by, BatchTimeout: time.Millisecond, RequiredAcks: kafka.RequireAll}
	defer w.Close()
	var all []kafka.Message
	for i := range 60 {
		all = append(all, kafka.Message{Key: fmt.Append(nil, "key-", i), Value: []byte("{}")})
	}
	require.NoError(t, w.WriteMessages(t.Context(), all...))
}

// keep stores a partition, one of n, with further fields.
func (s setting) keep(t *testing.T, p int32, n int, fields ...string) {
	t.Helper()
	cfg, _, err := config.LoadFile(s.file(t), os.LookupEnv)
	require.NoError(t, err)
	store, err := app.NewStore(cfg)
	require.NoError(t, err)
	defer store.Close()
	meta := state.Meta{Layout: task.StateLayout, ClusterID: "c", TopicNames: []string{"i", "s", "p", "r"}, Partitions: n, Inputs: make([]state.Position, 3),
		ProducerID: -1}
	m, err := store.Acquire(t.Context(), p, 0, true, &meta)
	require.NoError(t, err)
	c := state.Checkpoint{Fence: m.Fence, ID: testenv.Unique(t, "c"), Meta: meta}
	for i := 0; i < len(fields); i += 2 {
		c.Changes.Writes = append(c.Changes.Writes, state.Write{Hash: state.MetaHash, Field: []byte(fields[i]), Value: []byte(fields[i+1])})
	}
	require.NoError(t, store.Checkpoint(t.Context(), p, &c))
}

// TestPartitioners: producers with different partitioners are a fault, which names the setting.
func TestPartitioners(t *testing.T) {
	env := testenv.Embedded(t)
	s := of(t, env)
	s.make(t, three)
	s.publish(t, "-i", kafka.Murmur2Balancer{})
	s.finds(t, doctor.Options{}, [2]string{"ok partitioners", "are placed by murmur2"})
	s.publish(t, "-p", kafka.CRC32Balancer{})
	s.finds(t, doctor.Options{}, [2]string{"fault partitioners", "-p by crc32"})
}

// TestPartitioners_AfterAReshard: records from before partitions were added are placed by the old number, and are no sign of a partitioner.
func TestPartitioners_AfterAReshard(t *testing.T) {
	env := testenv.Embedded(t)
	s := of(t, env)
	s.make(t, three)
	s.publish(t, "-i", kafka.BalancerFunc(func(m kafka.Message, _ ...int) int { return kafka.Murmur2Balancer{}.Balance(m, 0, 1) }))
	s.publish(t, "-p", kafka.Murmur2Balancer{})
	s.finds(t, doctor.Options{}, [2]string{"fault partitioners", "-i by another, or several"})
	s.keep(t, 0, 2)
	s.keep(t, 1, 2)
	s.finds(t, doctor.Options{}, [2]string{"ok partitioners", "keys of " + s.group + "-p are placed by murmur2"})
	for p := range int32(3) {
		s.keep(t, p, 3, "history.1", `{"done":"reshard","offsets":[60,0,0]}`)
	}
	s.finds(t, doctor.Options{}, [2]string{"ok partitioners", "keys of " + s.group + "-p are placed by murmur2"})
}

// TestClock: a clock that is off is compared with the servers' clocks. Without Kafka's own, the last ranking's time
// is used.
func TestClock(t *testing.T) {
	testenv.Each(t, func(t *testing.T, env testenv.Env) {
		s := of(t, env)
		s.make(t, three)
		off := func(by time.Duration) doctor.Options {
			return doctor.Options{Now: func() time.Time { return time.Now().Add(by) }}
		}
		whose := "that of Kafka's controller: nothing would expire; see to NTP"
		if env.Fake != nil {
			w := &kafka.Writer{Addr: kafka.TCP(env.Kafka), Topic: s.group + "-r", Balancer: kafka.BalancerFunc(func(kafka.Message, ...int) int { return 0 })}
			defer w.Close()
			require.NoError(t, w.WriteMessages(t.Context(), kafka.Message{Key: []byte("k"), Value: []byte("{}")}))
			whose = "that of the broker that stamped the last ranking: nothing would expire; see to NTP"
		}
		s.finds(t, off(-time.Hour), [2]string{"fault clock", "behind " + whose})
		if env.Fake == nil {
			s.finds(t, off(time.Hour), [2]string{"fault clock", "ahead of " + whose}, [2]string{"fault clock", "ahead of that of Redis at"})
			s.finds(t, off(time.Minute), [2]string{"warning clock", "ahead of"})
		}
	})
}

// TestRedis: settings of a real server that could lose state are reported.
func TestRedis(t *testing.T) {
	server := testenv.OwnRedis(t)
	env := testenv.Embedded(t)
	s := of(t, env)
	s.redis = "redis://" + server.Addr + "/0"
	s.make(t, three)
	s.finds(t, doctor.Options{}, [2]string{"warning redis", "keeps nothing on disk"})
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	set := func(name, value string) { require.NoError(t, client.ConfigSet(t.Context(), name, value).Err()) }
	set("save", "3600 1")
	s.finds(t, doctor.Options{}, [2]string{"warning redis", "keeps dumps only"})
	set("appendonly", "yes")
	s.finds(t, doctor.Options{}, [2]string{"ok redis", "evicts nothing, persists its data"})
	set("maxmemory-policy", "allkeys-lru")
	s.finds(t, doctor.Options{}, [2]string{"fault redis", `maxmemory-policy is "allkeys-lru"`})
	set("maxmemory-policy", "noeviction")
	set("maxmemory", "1")
	s.finds(t, doctor.Options{}, [2]string{"fault redis", "writing would fail: OOM"}, [2]string{"warning redis", "of maxmemory are used"})
	set("maxmemory", "0")
	s.redisMore = ", wait_replicas: 1"
	s.finds(t, doctor.Options{}, [2]string{"fault redis", "redis.wait_replicas is 1"})
	s.redisMore = ""
	require.NoError(t, client.Do(t.Context(), "acl", "setuser", "u", "on", ">p", "~*", "+@all", "-hset").Err())
	s.redis = "redis://u:p@" + server.Addr + "/0"
	s.finds(t, doctor.Options{}, [2]string{"fault redis", "ACL SETUSER u ~{" + s.group + ":* +hset"})
}

// TestRights: each right that is missing is named, with the command that grants it.
func TestRights(t *testing.T) {
	env := testenv.Embedded(t, kfake.EnableSASL(), kfake.EnableACLs(), kfake.Superuser("PLAIN", "admin", "admin"), kfake.User("PLAIN", "u", "p"))
	admin := of(t, env)
	admin.kafka = "sasl: {mechanism: plain, username: admin, password: admin}"
	admin.make(t, three)
	s := admin
	s.kafka = "sasl: {mechanism: plain, username: u, password: p}"
	s.finds(t, doctor.Options{}, [2]string{"fault rights", "-i is hidden from this user: kafka-acls.sh --bootstrap-server " + env.Kafka},
		[2]string{"fault rights", "--allow-principal User:u --operation Read --group " + s.group},
		[2]string{"fault rights", "--operation Write --transactional-id " + s.group + "- --resource-pattern-type prefixed"})

	client := admin.client(t).Kafka()
	var acls []kafka.ACLEntry
	for _, name := range []string{"-i", "-s", "-p", "-r", "-i.dlq", "-s.dlq", "-p.dlq"} {
		acls = append(acls, kafka.ACLEntry{ResourceType: kafka.ResourceTypeTopic, ResourceName: s.group + name, ResourcePatternType: kafka.PatternTypeLiteral,
			Principal: "User:u", Host: "*", Operation: kafka.ACLOperationTypeDescribeConfigs, PermissionType: kafka.ACLPermissionTypeAllow})
		describe := acls[len(acls)-1]
		describe.Operation = kafka.ACLOperationTypeDescribe
		acls = append(acls, describe)
	}
	res, err := client.CreateACLs(t.Context(), &kafka.CreateACLsRequest{ACLs: acls})
	require.NoError(t, err)
	for _, err := range res.Errors {
		require.NoError(t, err)
	}
	s.finds(t, doctor.Options{}, [2]string{"fault rights", "no right Read on topic " + s.group + "-i: "},
		[2]string{"fault rights", "no right Write on topic " + s.group + "-r: "}, [2]string{"fault rights", "no right Write on topic " + s.group + "-p.dlq: "})
}

// TestGroup: workers that are configured otherwise, among each other or than this file, are named.
func TestGroup(t *testing.T) {
	env := testenv.Embedded(t)
	s := of(t, env)
	s.make(t, three)
	cfg, _, err := config.LoadFile(s.file(t), os.LookupEnv)
	require.NoError(t, err)
	store, err := app.NewStore(cfg)
	require.NoError(t, err)
	defer store.Close()
	announce := func(id, version string, learners map[string]string) {
		_, err := store.Announce(t.Context(), state.WorkerInfo{ID: id, Version: version, Learners: learners})
		require.NoError(t, err)
	}
	own := cfg.Learners[0].Fingerprint()
	announce("first-worker", "1", map[string]string{"feed": own})
	s.finds(t, doctor.Options{}, [2]string{"ok group", "running: 1 worker, all with the learners of this configuration"},
		[2]string{"warning group", "0 members in Kafka, and 1 running worker in Redis"})
	announce("second-worker", "2", map[string]string{"feed": "another", "front": "f"})
	s.finds(t, doctor.Options{}, [2]string{"warning group", "learner feed is not the same everywhere: workers second have it (another); first- have it"},
		[2]string{"warning group", "learner front"}, [2]string{"warning group", "several versions run (1, 2)"})
	_, err = store.Announce(t.Context(), state.WorkerInfo{ID: "third-worker", Outside: true})
	require.NoError(t, err)
	s.finds(t, doctor.Options{}, [2]string{"warning group", "worker third- stays outside"}, [2]string{"warning group", "0 members in Kafka, and 2 running workers"})
}

// TestNothingAnswers: each wait ends.
func TestNothingAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	s := setting{brokers: l.Addr().String(), redis: "redis://" + l.Addr().String() + "/0", group: "g"}
	s.finds(t, doctor.Options{}, [2]string{"fault kafka", "takes connections and says nothing"}, [2]string{"fault redis", "takes connections and says nothing"})
}
