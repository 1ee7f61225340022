package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/doctor"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv/proc"
)

// TestSecurity: mutual TLS, SASL, ACLs and Redis' ACL user, on servers that let nobody in without them.
func TestSecurity(t *testing.T) {
	t.Parallel()
	eachSecured(t, func(t *testing.T, s *secured) {
		for i, mechanism := range mechanisms {
			t.Run("ranks, joins and learns with "+mechanism, func(t *testing.T) { s.works(t, mechanism, uint64(i+1)) })
		}
		t.Run("side by side", func(t *testing.T) {
			if s.real { // only there are commands counted
				t.Run("deadlines pass", s.expires)
			}
			t.Run("what a process shows", s.shows)
			t.Run("passwords change", s.renews)
			t.Run("examined", s.examined)
			s.faults(t)
			s.eachRightIsNeeded(t)
		})
		if s.real {
			s.eachCommandIsNeeded(t)
		}
	})
}

// works: with the least rights, the worker works as without TLS, users and rights.
func (s *secured) works(t *testing.T, mechanism string, seed uint64) {
	kafkaPass, redisKeys := "password: ${E2E_KAFKA_PASSWORD}", s.redisKeys("password: ${E2E_REDIS_PASSWORD}")
	switch mechanism { // each way to give a password is used once
	case "scram-sha-256":
		redisKeys = fmt.Sprintf("url: rediss://%s:${E2E_REDIS_PASSWORD_ESCAPED}@%s/0\n  %s", workerUser, s.redis, s.tls())
	case "scram-sha-512":
		kafkaPass = s.passwordFile(t, "kafka.password", kafkaPassword)
		redisKeys = s.redisKeys(s.passwordFile(t, "redis.password", redisPassword))
	}
	const impressions = 300
	w := s.world(t, 3, s.kafkaKeys(mechanism, kafkaPass), redisKeys, leastRights)
	r := w.start(t)
	p, done := w.play(t, impressions, seed, nil)
	require.NoError(t, <-done)
	got := w.await(t, p.sent)
	r.awaitReady(t)
	r.stop(t)
	checkAccount(t, got, p.sent)
	w.ranked(t, impressions)
	requireNoSecrets(t, w.log.String())
}

const wrongPassword = "wr0ng-s3cret"

func requireNoSecrets(t *testing.T, text string) {
	t.Helper()
	for _, secret := range []string{kafkaPassword, redisPassword, wrongPassword} {
		require.NotContains(t, text, secret)
	}
}

// shows: a worker process listens at its address only, and its pages, profiles and log contain no password.
func (s *secured) shows(t *testing.T) {
	t.Parallel()
	ports, err := proc.FreePorts(1)
	require.NoError(t, err)
	listen := fmt.Sprintf("127.0.0.1:%d", ports[0])
	var env []string
	for name, value := range secrets {
		env = append(env, name+"="+value)
	}
	for _, c := range []struct {
		http  string
		wants []string
	}{{`listen: ""`, nil}, {fmt.Sprintf("listen: %q, pprof: true", listen), []string{listen}}} {
		w := s.worldOf(t, 1, settings{kafka: s.kafkaKeys("plain", "password: ${E2E_KAFKA_PASSWORD}"),
			redis: s.redisKeys("password: ${E2E_REDIS_PASSWORD}"), http: c.http}, leastRights)
		w.publish(t, kafka.Message{Topic: w.cfg.Kafka.Topics.Impressions, Key: []byte("x"), Value: []byte("{")})
		p := w.spawn(t, build(t), "secured", env...)
		require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] == 1 }, deadline, 20*time.Millisecond)
		require.Equal(t, c.wants, listening(t, p.cmd.Process.Pid))
		if c.wants != nil {
			for _, page := range []string{"livez", "readyz", "version", "metrics", "debug/pprof/", "debug/pprof/cmdline", "debug/pprof/heap?debug=1",
				"debug/pprof/goroutine?debug=2", "debug/pprof/trace?seconds=0.1", "debug/pprof/allocs?debug=1"} {
				requireNoSecrets(t, get(t, "http://"+listen+"/"+page))
			}
		}
		p.stop(t)
		requireNoSecrets(t, p.log.String())
	}
}

// get reads a page, once it is there: that of readiness can take a moment.
func get(t *testing.T, url string) (text string) {
	t.Helper()
	client := http.Client{Timeout: 30 * time.Second}
	require.Eventually(t, func() bool {
		res, err := client.Get(url)
		if err != nil {
			return false
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		text = string(body)
		return err == nil && res.StatusCode == http.StatusOK && text != ""
	}, deadline, 20*time.Millisecond, url)
	return text
}

// renews: passwords are mended in their files while the worker runs, as secrets are rotated.
func (s *secured) renews(t *testing.T) {
	for _, mechanism := range mechanisms {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			kafkaFile := s.passwordFile(t, mechanism+".kafka", wrongPassword)
			redisFile := s.passwordFile(t, mechanism+".redis", wrongPassword)
			w := s.world(t, 1, s.kafkaKeys(mechanism, kafkaFile), s.redisKeys(redisFile), leastRights)
			r := w.start(t)
			r.awaitUnready(t, s.refused())
			s.passwordFile(t, mechanism+".kafka", kafkaPassword)
			r.awaitUnready(t, "WRONGPASS")
			s.passwordFile(t, mechanism+".redis", redisPassword)
			r.awaitReady(t)
			r.stop(t)
			requireNoSecrets(t, w.log.String())
		})
	}
}

// examined: with the least rights the doctor finds no fault; without one of them, that one, and the command that gives it.
func (s *secured) examined(t *testing.T) {
	t.Parallel()
	env := func(name string) (string, bool) {
		value, ok := secrets[name]
		return value, ok
	}
	for i, missing := range append([]right{{}}, leastRights...) {
		rights := leastRights
		if i > 0 {
			rights = slices.Delete(slices.Clone(leastRights), i-1, i)
		}
		w := s.world(t, 1, s.kafkaKeys("plain", "password: ${E2E_KAFKA_PASSWORD}"), s.redisKeys("password: ${E2E_REDIS_PASSWORD}"), rights)
		found := doctor.Examine(t.Context(), w.file, env, doctor.Options{})
		require.Equal(t, i > 0, doctor.Faulty(found), "%v: %v", missing, found)
		requireNoSecrets(t, fmt.Sprint(found))
		if i > 0 {
			require.True(t, slices.ContainsFunc(found, func(f doctor.Finding) bool {
				return f.Status == doctor.Fault && f.Area == "rights" && strings.Contains(f.Message, w.group) && strings.Contains(f.Message, "kafka-acls.sh")
			}), "%v: %v", missing, found)
		}
	}
}

// refused returns the message for a wrong password for Kafka.
func (s *secured) refused() string {
	if s.real {
		return "Authentication failed"
	}
	return "hung up" // as kfake does, and brokers before 1.0
}

// listening are the addresses on which a process takes TCP connections, as Linux lists them.
func listening(t *testing.T, pid int) (addrs []string) {
	t.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	require.NoError(t, err)
	require.NotEmpty(t, links, "this needs /proc")
	own := map[string]bool{}
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil {
			own[to] = true
		}
	}
	const listens = "0A" // the state
	for _, table := range []string{"tcp", "tcp6"} {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, table))
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != listens || !own["socket:["+f[9]+"]"] {
				continue
			}
			host, port, _ := strings.Cut(f[1], ":")
			n, err := strconv.ParseUint(port, 16, 16)
			require.NoError(t, err)
			if host == "0100007F" {
				host = "127.0.0.1"
			}
			addrs = append(addrs, fmt.Sprintf("%s:%d", host, n))
		}
	}
	return addrs
}

// prompt is how soon a fault has to show in /readyz, on a machine that does much else.
const prompt = 15 * time.Second

// faults: a wrong password, a server of another CA, a missing certificate are shown soon in /readyz and in the log. The worker waits for
// them to be mended.
func (s *secured) faults(t *testing.T) {
	good, redisGood := "password: ${E2E_KAFKA_PASSWORD}", s.redisKeys("password: ${E2E_REDIS_PASSWORD}")
	wrong := "password: " + wrongPassword
	other := newAuthority(t).file()
	distrust := func(keys string) string { return strings.ReplaceAll(keys, s.ca.file(), other) }
	anonymous := func(keys string) string {
		return strings.ReplaceAll(keys, s.tls(), fmt.Sprintf("tls: {ca_file: %q}", s.ca.file()))
	}
	refused, nameless := s.refused(), "bad certificate"
	if !s.real {
		nameless = "certificate required"
	}
	const untrusted = "certificate signed by unknown authority"
	for name, f := range map[string]struct{ kafka, redis, why string }{
		"kafka, wrong password for PLAIN": {s.kafkaKeys("plain", wrong), redisGood, refused},
		"kafka, wrong password for SCRAM": {s.kafkaKeys("scram-sha-512", wrong), redisGood, refused},
		"kafka, server of another CA":     {distrust(s.kafkaKeys("plain", good)), redisGood, untrusted},
		"kafka, client without a name":    {anonymous(s.kafkaKeys("plain", good)), redisGood, nameless},
		"kafka, no TLS":                   {strings.ReplaceAll(s.kafkaKeys("plain", good), s.tls(), ""), redisGood, "speaks TLS there: set kafka.tls"},
		"redis, wrong password":           {s.kafkaKeys("plain", good), s.redisKeys(wrong), "WRONGPASS"},
		"redis, server of another CA":     {s.kafkaKeys("plain", good), distrust(redisGood), untrusted},
		"redis, client without a name":    {s.kafkaKeys("plain", good), anonymous(redisGood), "certificate required"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := s.world(t, 1, f.kafka, f.redis, leastRights)
			start := time.Now()
			r := w.start(t)
			text := r.awaitUnready(t, f.why)
			took := time.Since(start)
			r.stop(t)
			t.Logf("after %v: %s", took, text)
			require.Less(t, took, prompt)
			require.Contains(t, w.log.String(), f.why)
			requireNoSecrets(t, text+w.log.String())
		})
	}
}

// eachRightIsNeeded: without any one of the rights the worker waits, says so, and goes on by itself when it is given.
func (s *secured) eachRightIsNeeded(t *testing.T) {
	for i, missing := range leastRights {
		if strings.HasPrefix(missing.name, "selections") || strings.HasPrefix(missing.name, "payoffs") {
			continue // as impressions
		}
		t.Run(fmt.Sprintf("%s %v on %v", missing.op, missing.kind, missing.name), func(t *testing.T) {
			t.Parallel()
			rest := slices.Delete(slices.Clone(leastRights), i, i+1)
			w := s.world(t, 1, s.kafkaKeys("plain", "password: ${E2E_KAFKA_PASSWORD}"), s.redisKeys("password: ${E2E_REDIS_PASSWORD}"), rest)
			w.publish(t, kafka.Message{Topic: w.cfg.Kafka.Topics.Impressions, Key: []byte("x"), Value: []byte("{")})
			r := w.start(t)
			text := r.awaitUnready(t, "Authorization Failed")
			t.Logf("%s", text)
			w.grantKafka(t, missing)
			r.awaitReady(t)
			require.Eventually(t, func() bool { return w.counts(t)["impressions.read"] == 1 }, deadline, 20*time.Millisecond)
			r.stop(t)
			require.Len(t, w.read(t, w.cfg.Kafka.Topics.DLQ(w.cfg.Kafka.Topics.Impressions), 0), 1)
		})
	}
}

// eachCommandIsNeeded holds the commands that the ACL user may use against those that the Redis has seen by now.
func (s *secured) eachCommandIsNeeded(t *testing.T) {
	used := commands(t, s.admin(t))
	used["wait"] = true // with redis.wait_replicas, see TestReplicas
	used["del"] = true  // of deltas that a state has left that is gone, see redisstore's own tests
	for _, rule := range aclUser {
		if name, ok := strings.CutPrefix(rule, "+"); ok && !used[name] {
			t.Errorf("command %s was allowed and not needed", name)
		}
	}
}

// expires: the commands of the expiry walk, and of the next owner's id index, are allowed.
func (s *secured) expires(t *testing.T) {
	t.Parallel()
	w := s.world(t, 1, s.kafkaKeys("plain", "password: ${E2E_KAFKA_PASSWORD}"), s.redisKeys("password: ${E2E_REDIS_PASSWORD}"), leastRights)
	w.cfg.Learners[0].SelectionTimeout = time.Second
	r := w.start(t)
	w.publish(t, kafka.Message{Topic: w.cfg.Kafka.Topics.Impressions, Key: []byte("x"),
		Value: []byte(`{"impression_id":"x","candidates":[{"item":"a","utility":1}]}`)})
	require.Eventually(t, func() bool { return w.counts(t)["impressions.unselected"] == 1 }, deadline, 50*time.Millisecond)
	r.stop(t)
	admin := s.admin(t)
	r = w.start(t)
	require.Eventually(t, func() bool { return commands(t, admin)["hkeys"] }, deadline, 50*time.Millisecond)
	r.stop(t)
}
