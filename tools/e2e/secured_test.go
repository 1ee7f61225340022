package e2e

import (
	"context"
	"fmt"
	"net/url"
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

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	realkafka "github.com/ranker-worker/ranker-worker/internal/test/testenv/kafka"
	realredis "github.com/ranker-worker/ranker-worker/internal/test/testenv/redis"
)

// The worker's user on the secured servers. The passwords contain characters that YAML, Kafka's files and URLs could misread.
const (
	workerUser    = "worker"
	kafkaPassword = `k4fka:# %pass`
	redisPassword = `r3dis:# %pass`
)

// secured is a pair that lets nobody in without a certificate of its CA, a user and a password, and that user do
// nothing without rights.
type secured struct {
	ca     *authority
	server pair
	client pair

	brokers string // where the worker connects to
	redis   string
	access  settings // how the test itself gets in, with all rights
	real    bool

	plainRedis string // address of a real server's port for everybody
}

// mechanisms of SASL as the configuration names them.
var mechanisms = []string{"plain", "scram-sha-256", "scram-sha-512"}

// eachSecured runs f on an embedded pair and on a real pair.
func eachSecured(t *testing.T, f func(t *testing.T, s *secured)) {
	t.Run("embedded", func(t *testing.T) { f(t, securedEmbedded(t)) })
	if testenv.Short() {
		t.Logf("left out, because %s=1: the same test on a real Apache Kafka and a real redis-server", testenv.ShortEnv)
		return
	}
	t.Run("real", func(t *testing.T) { f(t, securedReal(t)) })
}

func newSecured(t *testing.T) *secured {
	ca := newAuthority(t)
	return &secured{ca: ca, server: ca.server(t), client: ca.client(t)}
}

func securedEmbedded(t *testing.T) *secured {
	t.Helper()
	s := newSecured(t)
	opts := []kfake.Opt{kfake.NumBrokers(1), kfake.TLS(s.ca.serves(t, s.server)), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.Superuser("SCRAM-SHA-256", "admin", "admin")}
	for _, m := range mechanisms {
		opts = append(opts, kfake.User(strings.ToUpper(m), workerUser, kafkaPassword))
	}
	fake, err := kfake.NewCluster(opts...)
	require.NoError(t, err)
	t.Cleanup(fake.Close)
	mini, err := miniredis.RunTLS(s.ca.serves(t, s.server))
	require.NoError(t, err)
	t.Cleanup(mini.Close)
	mini.RequireUserAuth(workerUser, redisPassword)
	mini.RequireUserAuth("admin", "admin")
	s.brokers, s.redis = fake.ListenAddrs()[0], mini.Addr()
	s.access = settings{brokers: s.brokers, learner: "policy: elimination",
		kafka: s.tls() + "\n  sasl: {mechanism: scram-sha-256, username: admin, password: admin}",
		redis: fmt.Sprintf("url: rediss://admin:admin@%s/0\n  %s", s.redis, s.tls())}
	return s
}

// securedReal starts a Kafka with a second listener, for SASL over TLS, and a Redis with a second port, for TLS. Kafka's users have only
// the rights that ACLs give them. The test itself uses the other ports, where it may do everything.
func securedReal(t *testing.T) *secured {
	t.Helper()
	s := newSecured(t)
	s.real = true
	listener := map[string]string{
		"ssl.client.auth": "required", "ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM",
		"ssl.keystore.key": s.server.keyPEM, "ssl.keystore.certificate.chain": s.server.certPEM,
		"ssl.truststore.certificates": s.ca.pem(t),
		"sasl.enabled.mechanisms":     "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		"plain.sasl.jaas.config": fmt.Sprintf(
			`org.apache.kafka.common.security.plain.PlainLoginModule required user_%s="%s";`, workerUser, kafkaPassword),
	}
	var scram []string
	for _, m := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
		listener[strings.ToLower(m)+".sasl.jaas.config"] = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
		scram = append(scram, fmt.Sprintf("%s=[name=%s,password=%s]", m, workerUser, kafkaPassword))
	}
	broker := testenv.OwnKafka(t, realkafka.Options{SCRAM: scram,
		Listeners: []realkafka.Listener{{Name: "SECURED", Protocol: "SASL_SSL", Settings: listener}},
		Settings: map[string]string{"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
			"super.users": "User:ANONYMOUS"}})
	server := testenv.OwnRedis(t, realredis.Options{
		TLS: &realredis.TLS{CAFile: s.ca.file(), CertFile: s.server.certFile, KeyFile: s.server.keyFile}})
	s.brokers, s.redis, s.plainRedis = broker.Listeners["SECURED"], server.TLSAddr, server.Addr
	s.access = plain(testenv.Env{Kafka: broker.Addr, Redis: server.Addr}, "policy: elimination")
	return s
}

// tls returns the certificates' settings, for either section.
func (s *secured) tls() string {
	return fmt.Sprintf("tls: {ca_file: %q, cert_file: %q, key_file: %q}", s.ca.file(), s.client.certFile, s.client.keyFile)
}

// world makes a group that the worker reaches with its own user and rights.
func (s *secured) world(t *testing.T, partitions int, kafka, redis string, rights []right) *world {
	t.Helper()
	return s.worldOf(t, partitions, settings{kafka: kafka, redis: redis}, rights)
}

// secrets are the variables that configurations take passwords from.
var secrets = map[string]string{"E2E_KAFKA_PASSWORD": kafkaPassword, "E2E_REDIS_PASSWORD": redisPassword,
	"E2E_REDIS_PASSWORD_ESCAPED": url.PathEscape(redisPassword)}

func (s *secured) worldOf(t *testing.T, partitions int, worker settings, rights []right) *world {
	t.Helper()
	worker.brokers, worker.learner = s.brokers, "policy: elimination"
	w := makeWorld(t, partitions, worker, s.access, func(name string) (string, bool) {
		value, ok := secrets[name]
		return value, ok
	})
	s.grantRedis(t, w)
	w.grantKafka(t, rights...)
	return w
}

// aclUser is the least that the worker's user of Redis needs:
//
//	ACL SETUSER worker on >PASSWORD resetkeys ~{GROUP:* resetchannels -@all +info +set +eval +evalsha +wait +multi +exec
//	  +hget +hmget +hset +hdel +hgetall +hkeys +hlen +hscan +exists +del +pexpire
//	  +zadd +zrem +zcard +zrange +zrangebyscore +xadd +xrange +time
//
// SELECT comes on top for a database other than 0, and CLUSTER, READONLY and ASKING for a cluster. INFO is asked for
// maxmemory-policy; CONFIG|GET does in its place. WAIT is for redis.wait_replicas.
var aclUser = strings.Fields(`resetchannels -@all +info +set +eval +evalsha +wait +multi +exec
	+hget +hmget +hset +hdel +hgetall +hkeys +hlen +hscan +exists +del +pexpire
	+zadd +zrem +zcard +zrange +zrangebyscore +xadd +xrange +time`)

// grantRedis makes the worker's user. miniredis knows users, but no rights.
func (s *secured) grantRedis(t *testing.T, w *world) {
	t.Helper()
	if !s.real {
		return
	}
	// Worlds that live at the same time share the user: keys are added.
	args := []any{"acl", "setuser", workerUser, "on", "resetpass", ">" + redisPassword, "~{" + w.group + ":*"}
	for _, a := range aclUser {
		args = append(args, a)
	}
	require.NoError(t, w.redis.Do(t.Context(), args...).Err())
}

// right is one ACL of Kafka for the worker's principal.
type right struct {
	name string // GROUP and topics' names are filled in
	kind kafka.ResourceType
	op   kafka.ACLOperationType
}

// leastRights are the rights in Kafka that the worker's principal needs: without any of them it does not work, or stops at the
// first faulty record. Read and Write imply Describe.
//
//	topics impressions, selections, payoffs   Read, DescribeConfigs
//	topic rankings                            Read, Write, DescribeConfigs
//	topics *.dlq                              Write, DescribeConfigs
//	group GROUP                               Read
//	transactional id GROUP-* (prefixed)       Write
var leastRights = []right{
	{"impressions", kafka.ResourceTypeTopic, kafka.ACLOperationTypeRead},
	{"impressions", kafka.ResourceTypeTopic, kafka.ACLOperationTypeDescribeConfigs},
	{"selections", kafka.ResourceTypeTopic, kafka.ACLOperationTypeRead},
	{"selections", kafka.ResourceTypeTopic, kafka.ACLOperationTypeDescribeConfigs},
	{"payoffs", kafka.ResourceTypeTopic, kafka.ACLOperationTypeRead},
	{"payoffs", kafka.ResourceTypeTopic, kafka.ACLOperationTypeDescribeConfigs},
	{"rankings", kafka.ResourceTypeTopic, kafka.ACLOperationTypeRead},
	{"rankings", kafka.ResourceTypeTopic, kafka.ACLOperationTypeWrite},
	{"rankings", kafka.ResourceTypeTopic, kafka.ACLOperationTypeDescribeConfigs},
	{"impressions.dlq", kafka.ResourceTypeTopic, kafka.ACLOperationTypeWrite},
	{"impressions.dlq", kafka.ResourceTypeTopic, kafka.ACLOperationTypeDescribeConfigs},
	{"selections.dlq", kafka.ResourceTypeTopic, kafka.ACLOperationTypeWrite},
	{"selections.dlq", kafka.ResourceTypeTopic, kafka.ACLOperationTypeDescribeConfigs},
	{"payoffs.dlq", kafka.ResourceTypeTopic, kafka.ACLOperationTypeWrite},
	{"payoffs.dlq", kafka.ResourceTypeTopic, kafka.ACLOperationTypeDescribeConfigs},
	{"", kafka.ResourceTypeGroup, kafka.ACLOperationTypeRead},
	{"", kafka.ResourceTypeTransactionalID, kafka.ACLOperationTypeWrite},
}

// grantKafka gives the worker's principal rights on the group's resources, and waits until the broker knows them.
func (w *world) grantKafka(t *testing.T, rights ...right) {
	t.Helper()
	client := &kafka.Client{Addr: kafka.TCP(w.access.Kafka.Brokers...), Transport: w.transport(t)}
	var acls []kafka.ACLEntry
	for _, r := range rights {
		acl := kafka.ACLEntry{ResourceType: r.kind, ResourceName: w.group, ResourcePatternType: kafka.PatternTypeLiteral,
			Principal: "User:" + workerUser, Host: "*", Operation: r.op, PermissionType: kafka.ACLPermissionTypeAllow}
		if r.name != "" {
			acl.ResourceName += "-" + r.name
		}
		if r.kind == kafka.ResourceTypeTransactionalID {
			acl.ResourceName, acl.ResourcePatternType = w.group+"-", kafka.PatternTypePrefixed
		}
		acls = append(acls, acl)
	}
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	res, err := client.CreateACLs(ctx, &kafka.CreateACLsRequest{ACLs: acls})
	require.NoError(t, err)
	for _, err := range res.Errors {
		require.NoError(t, err)
	}
	for _, acl := range acls {
		require.Eventually(t, func() bool {
			known, err := client.DescribeACLs(ctx, &kafka.DescribeACLsRequest{Filter: kafka.ACLFilter{
				ResourceTypeFilter: acl.ResourceType, ResourceNameFilter: acl.ResourceName,
				ResourcePatternTypeFilter: acl.ResourcePatternType, Operation: acl.Operation,
				PermissionType: acl.PermissionType}})
			return err == nil && known.Error == nil && len(known.Resources) == 1
		}, deadline, 10*time.Millisecond, "%v", acl)
	}
}

// kafkaKeys are the lines for the Kafka section.
func (s *secured) kafkaKeys(mechanism, password string) string {
	return fmt.Sprintf("%s\n  sasl:\n    mechanism: %s\n    username: %s\n    %s", s.tls(), mechanism, workerUser, password)
}

// redisKeys are the lines for the Redis section, password given by a key of its own.
func (s *secured) redisKeys(password string) string {
	return fmt.Sprintf("url: rediss://%s/0\n  username: %s\n  %s\n  %s", s.redis, workerUser, password, s.tls())
}

// passwordFile is a file with a password, as an editor leaves it.
func (s *secured) passwordFile(t *testing.T, name, password string) string {
	t.Helper()
	file := filepath.Join(s.ca.dir, name)
	require.NoError(t, os.WriteFile(file, []byte(password+"\n"), 0o600))
	return fmt.Sprintf("password_file: %q", file)
}

// commands are the commands that a Redis has carried out, those of scripts among them.
func commands(t *testing.T, client *redis.Client) map[string]bool {
	t.Helper()
	text, err := client.Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	used := map[string]bool{}
	for line := range strings.Lines(text) {
		if name, _, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":"); ok {
			used[name] = true
		}
	}
	return used
}

// admin reaches the Redis with all rights.
func (s *secured) admin(t *testing.T) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL("redis://" + s.plainRedis + "/0")
	require.NoError(t, err)
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}
