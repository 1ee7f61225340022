package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/app"
)

// brokerOf reads from the file where the worker's Kafka is.
func (w *atWork) brokerOf() string {
	w.t.Helper()
	cfg, _, err := config.LoadFile("worker.yaml", os.LookupEnv)
	require.NoError(w.t, err)
	return cfg.Kafka.Brokers[0]
}

// address is where the worker serves, as it says.
func (w *atWork) address() string {
	w.t.Helper()
	w.says("listens=127.0.0.1:")
	return regexp.MustCompile(`listens=(127\.0\.0\.1:\d+)`).FindStringSubmatch(w.errOut.String())[1]
}

// publish writes impressions that name a learner; "": none.
func (w *atWork) publish(learner string, ids ...string) {
	w.t.Helper()
	writer := &kafka.Writer{Addr: kafka.TCP(w.brokerOf()), Topic: "impressions", Balancer: kafka.Murmur2Balancer{}, BatchTimeout: time.Millisecond,
		RequiredAcks: kafka.RequireAll, Transport: &kafka.Transport{}}
	defer writer.Close()
	var all []kafka.Message
	for _, id := range ids {
		text := fmt.Sprintf(`{"impression_id":%q,"learner":%q,"candidates":[{"item":"a","utility":1},{"item":"b","utility":2}]}`, id, learner)
		all = append(all, kafka.Message{Key: []byte(id), Value: []byte(strings.Replace(text, `"learner":"",`, "", 1))})
	}
	require.NoError(w.t, writer.WriteMessages(w.t.Context(), all...))
}

// ranked waits for n rankings, and returns each impression's learner.
func (w *atWork) ranked(n int) map[string]string {
	w.t.Helper()
	learners := map[string]string{}
	ctx, cancel := context.WithTimeout(w.t.Context(), 90*time.Second)
	defer cancel()
	for p := range 2 {
		r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{w.brokerOf()}, Topic: "rankings", Partition: p, MaxWait: 20 * time.Millisecond})
		defer r.Close()
		for {
			soon, stop := context.WithTimeout(ctx, time.Second)
			m, err := r.ReadMessage(soon)
			stop()
			if err != nil {
				break // the end, as far as it is there
			}
			if len(m.Value) == 0 || m.Value[0] != '{' {
				continue // the embedded broker shows markers
			}
			var ranking struct {
				ImpressionID string `json:"impression_id"`
				Learner      string
			}
			require.NoError(w.t, json.Unmarshal(m.Value, &ranking))
			require.NotContains(w.t, learners, ranking.ImpressionID, "ranked twice")
			learners[ranking.ImpressionID] = ranking.Learner
		}
	}
	if len(learners) < n && ctx.Err() == nil {
		return w.ranked(n)
	}
	return learners
}

// watch asks for a page until it is stopped: each time it is answered. It gives how often.
func (w *atWork) watch(url string) (stop func() int64) {
	var asked, failed atomic.Int64
	end, done := make(chan struct{}), make(chan struct{})
	client := &http.Client{Timeout: 30 * time.Second}
	go func() {
		defer close(done)
		for {
			select {
			case <-end:
				return
			case <-time.After(5 * time.Millisecond):
			}
			res, err := client.Get(url)
			asked.Add(1)
			if err != nil {
				failed.Add(1)
				continue
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
	}()
	return func() int64 {
		close(end)
		<-done
		client.CloseIdleConnections()
		assert.Zero(w.t, failed.Load(), "%s was not answered", url)
		return asked.Load()
	}
}

func page(t *testing.T, url string) string {
	t.Helper()
	res, err := http.Get(url)
	require.NoError(t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	return string(text)
}

// hangUp writes a configuration and sends SIGHUP.
func hangUp(t *testing.T, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile("worker.yaml.new", []byte(text), 0o600))
	require.NoError(t, os.Rename("worker.yaml.new", "worker.yaml")) // an earlier signal may still have it read
	require.NoError(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
}

// TestHangupAddsALearner: the worker goes on with it in the same process, and serves all the while. Nothing is lost, refused or ranked twice.
func TestHangupAddsALearner(t *testing.T) {
	w := startWorker(t, "")
	url := "http://" + w.address()
	ready := func() {
		t.Helper()
		require.Eventually(t, func() bool { return page(t, url+"/readyz") == "ready\n" }, 90*time.Second, 10*time.Millisecond)
	}
	ready()
	file, err := os.ReadFile("worker.yaml")
	require.NoError(t, err)
	stops := []func() int64{w.watch(url + "/readyz"), w.watch(url + "/metrics"), w.watch(url + "/page/live.json")}
	var ids, more []string
	for i := range 200 {
		ids, more = append(ids, fmt.Sprintf("one-%d", i)), append(more, fmt.Sprintf("two-%d", i))
	}
	w.publish("", ids[:100]...)
	before := page(t, url+"/metrics")
	require.Contains(t, before, "ranker_config_info")

	added := strings.Replace(string(file), "learners: {feed:", "learners: {new: {payoffs: stochastic, policy: greedy}, feed:", 1)
	added = strings.Replace(added, "out_of_range: clamp", "out_of_range: clamp, default: true", 1)
	hangUp(t, added)
	w.says("draining, to go on with the new configuration")
	w.publish("feed", ids[100:]...)
	fingerprint := regexp.MustCompile(`ranker_config_info{fingerprint="(\w+)"}`)
	require.Eventually(t, func() bool {
		return fingerprint.FindString(page(t, url+"/metrics")) != fingerprint.FindString(before)
	}, 90*time.Second, 10*time.Millisecond, "the new configuration is shown")
	w.publish("new", more...)
	ready()
	all := w.ranked(400)
	require.Len(t, all, 400)
	for id, learner := range all {
		require.Equal(t, strings.HasPrefix(id, "two-"), learner == "new", id)
	}
	for _, stop := range stops {
		require.Positive(t, stop())
	}

	// Any change besides an added learner is refused, and named.
	hangUp(t, strings.Replace(strings.Replace(added, "{new:", "{newer: {payoffs: stochastic}, new:", 1), "silence: ages", "silence: at_once", 1))
	w.says("settings=\"[learners.feed.silence learners.newer]\"")
	// A faulty configuration is reported, and the present one stays.
	hangUp(t, strings.Replace(added, "{new:", "{newer: {payoffs: wrong}, new:", 1))
	w.says("the configuration was not reloaded; the present one stays in force")
	hangUp(t, added) // as it is
	w.says("the configuration was reloaded")
	ready()
	require.Equal(t, exitOK, w.stop(), w.errOut.String())
	require.Equal(t, 1, strings.Count(w.errOut.String(), "draining, to go on"))
	require.NotContains(t, w.errOut.String(), "level=ERROR msg=\"refused")
	require.NotContains(t, w.errOut.String(), "dead letter")
}

// TestHangupWhileOneIsTakenOver: signals that follow each other soon end nothing, and leave no app behind.
func TestHangupWhileOneIsTakenOver(t *testing.T) {
	w := startWorker(t, "")
	url := "http://" + w.address()
	ready := func() bool { return page(t, url+"/readyz") == "ready\n" }
	require.Eventually(t, ready, 90*time.Second, 10*time.Millisecond)
	file, err := os.ReadFile("worker.yaml")
	require.NoError(t, err)
	first := strings.Replace(string(file), "out_of_range: clamp", "out_of_range: clamp, default: true", 1)
	for n, name := range []string{"a", "b", "c"} {
		hangUp(t, strings.Replace(first, "learners: {feed:", "learners: {"+name+": {payoffs: stochastic}, feed:", 1))
		require.Eventually(t, func() bool { return strings.Count(w.errOut.String(), "the configuration was reloaded") > n }, 90*time.Second, time.Millisecond)
	}
	w.says("draining, to go on with the new configuration")
	require.Eventually(t, ready, 90*time.Second, 10*time.Millisecond)
	require.Equal(t, exitOK, w.stop(), w.errOut.String())
	require.NotContains(t, w.errOut.String(), "level=ERROR")
}

// TestWhatIsTakenOver: which changes of a configuration are applied, and which are named instead.
func TestWhatIsTakenOver(t *testing.T) {
	authority := func(file, name string) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour), IsCA: true}
		der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	}
	const text = `kafka: {brokers: ['127.0.0.1:9092'], group: g, formats: {payoffs: avro}, schema_registry: {url: 'https://127.0.0.1:8081', username: r,
  password: old, tls: {ca_file: registry.pem}}, tls: {ca_file: ca.pem}, sasl: {mechanism: plain, username: u, password: one}}
redis: {addresses: ['127.0.0.1:6379'], username: me, password: one}
learners: {feed: {payoffs: stochastic, default: true}}
`
	inFile(t, "worker.yaml", text)
	authority("ca.pem", "one")
	authority("registry.pem", "one")
	load := func(text string) *config.Config {
		cfg, _, err := config.Load("worker.yaml", []byte(text), os.LookupEnv)
		require.NoError(t, err)
		return cfg
	}
	for name, c := range map[string]struct {
		from, to string
		takes    bool
		cannot   []string
	}{
		"nothing":          {"", "", false, nil},
		"a level":          {"learners:", "log: {level: debug}\nlearners:", false, nil},
		"Kafka's password": {"password: one}}", "password: two}}", true, nil},
		"registry's":       {"password: old", "password: new", true, nil},
		"Redis' password":  {"password: one}\nl", "password: two}\nl", true, nil},
		"a learner":        {"default: true}", "default: true}, new: {payoffs: stochastic}", true, nil},
		"a learner less":   {"feed:", "food:", false, []string{"learners.feed", "learners.food"}},
		"a user too":       {"username: u, password: one", "username: v, password: two", false, []string{"kafka.sasl.username", "kafka.sasl.password"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := newReloads(load(text), app.Options{Logger: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			cannot, err := s.takeOver(load(strings.Replace(text, c.from, c.to, 1)))
			require.NoError(t, err)
			require.Equal(t, c.takes, s.next != nil)
			if !c.takes {
				require.ElementsMatch(t, c.cannot, cannot)
			}
		})
	}
	for _, file := range []string{"registry.pem", "ca.pem"} {
		s, err := newReloads(load(text), app.Options{Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		authority(file, "two")
		for range 2 { // once is enough
			cannot, err := s.takeOver(load(text))
			require.NoError(t, err)
			require.Empty(t, cannot)
			require.NotNil(t, s.next, file)
		}
		require.NoError(t, os.Rename(file, file+"~"))
		_, err = s.takeOver(load(text))
		require.ErrorIs(t, err, os.ErrNotExist)
		require.NotNil(t, s.next, "the earlier configuration stays")
		require.NoError(t, os.Rename(file+"~", file))
	}
}
