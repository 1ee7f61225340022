package e2e

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/doctor"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	realkafka "github.com/ranker-worker/ranker-worker/internal/test/testenv/kafka"
)

// issuer issues tokens that a broker recognises, by its own key.
type issuer struct {
	key      *rsa.PrivateKey
	dir      string
	lifetime time.Duration
	handed   atomic.Int64
	server   *httptest.Server
	ca       *authority
}

const (
	clientSecret = "cl1ent:# %secret"
	issuerName   = "https://issuer.test"
	audience     = "kafka"
)

// newIssuer has a token endpoint by TLS, of a CA that the system does not know.
func newIssuer(t *testing.T, lifetime time.Duration) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	ca := newAuthority(t)
	cert := ca.server(t)
	own, err := tls.LoadX509KeyPair(cert.certFile, cert.keyFile)
	require.NoError(t, err)
	i := &issuer{key: key, dir: t.TempDir(), lifetime: lifetime, ca: ca}
	i.server = httptest.NewUnstartedServer(http.HandlerFunc(i.serve))
	i.server.TLS = &tls.Config{Certificates: []tls.Certificate{own}}
	i.server.StartTLS()
	t.Cleanup(i.server.Close)
	return i
}

func (i *issuer) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	user, secret, _ := r.BasicAuth()
	if user != "worker" || secret != "cl1ent%3A%23+%25secret" { // RFC 6749, 2.3.1: both are encoded
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":"invalid_client","error_description":"this client is not known"}`)
		return
	}
	i.handed.Add(1)
	fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":%d}`, i.token(audience, i.lifetime), i.lifetime/time.Second)
}

// token is a JWT (RFC 7519) for the worker, signed by RS256.
func (i *issuer) token(audience string, lifetime time.Duration) string {
	now := time.Now()
	part := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	signed := part(map[string]any{"alg": "RS256", "typ": "JWT", "kid": "one"}) + "." + part(map[string]any{"iss": issuerName, "aud": audience,
		"sub": workerUser, "scope": "rank", "iat": now.Add(-time.Second).Unix(), "exp": now.Add(lifetime).Unix()})
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(nil, i.key, crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// keys is a file with the public key, as brokers read it (RFC 7517).
func (i *issuer) keys(t *testing.T) string {
	t.Helper()
	var exponent [4]byte
	binary.BigEndian.PutUint32(exponent[:], uint32(i.key.E))
	text, err := json.Marshal(map[string]any{"keys": []any{map[string]any{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "one",
		"n": base64.RawURLEncoding.EncodeToString(i.key.N.Bytes()),
		"e": base64.RawURLEncoding.EncodeToString(new(big.Int).SetBytes(exponent[:]).Bytes())}}})
	require.NoError(t, err)
	file := filepath.Join(i.dir, "jwks.json")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	return file
}

// brokerOf starts an Apache Kafka that takes the issuer's tokens, and by TLS a password, and ends each session after a time.
func (i *issuer) brokerOf(t *testing.T, session time.Duration) *testenv.Owned {
	t.Helper()
	keys, cert := i.keys(t), i.ca.server(t)
	return testenv.OwnKafka(t, realkafka.Options{
		SCRAM: []string{fmt.Sprintf("SCRAM-SHA-256=[name=%s,password=%s]", workerUser, kafkaPassword)},
		JVM:   []string{"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls=file:" + keys, "-Dorg.apache.kafka.sasl.oauthbearer.allowed.files=" + keys},
		Listeners: []realkafka.Listener{{Name: "SECURED", Protocol: "SASL_PLAINTEXT", Settings: map[string]string{
			"sasl.enabled.mechanisms":                        "OAUTHBEARER",
			"oauthbearer.sasl.jaas.config":                   "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;",
			"oauthbearer.sasl.server.callback.handler.class": "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
			"oauthbearer.connections.max.reauth.ms":          fmt.Sprint(session.Milliseconds()),
			"sasl.oauthbearer.jwks.endpoint.url":             "file:" + keys,
			"sasl.oauthbearer.expected.audience":             audience,
			"sasl.oauthbearer.expected.issuer":               issuerName,
		}}, {Name: "ENCRYPTED", Protocol: "SASL_SSL", Settings: map[string]string{
			"ssl.keystore.type": "PEM", "ssl.keystore.key": cert.keyPEM, "ssl.keystore.certificate.chain": cert.certPEM,
			"sasl.enabled.mechanisms":                 "SCRAM-SHA-256",
			"scram-sha-256.sasl.jaas.config":          "org.apache.kafka.common.security.scram.ScramLoginModule required;",
			"scram-sha-256.connections.max.reauth.ms": fmt.Sprint(session.Milliseconds()),
		}}}})
}

// TestOAuthBearer: a worker logs in to an Apache Kafka with its own validator of tokens, by client credentials and by a file. It says why
// it cannot. It goes on through the ends of many sessions, as one with a password does.
func TestOAuthBearer(t *testing.T) {
	t.Parallel()
	const session, sessions = 3 * time.Second, 5
	// A session ends with its token at the latest. The remaining fifth, when the worker requests
	// the next, must be well more than the second that brokers require between two logins.
	i := newIssuer(t, 20*time.Second)
	kafka := i.brokerOf(t, session)
	env := testenv.Env{Kafka: kafka.Addr, Redis: testenv.Real(t).Redis}
	worldAt := func(listener, keys string) *world {
		worker := plain(env, "policy: elimination")
		worker.brokers, worker.kafka = kafka.Listeners[listener], keys
		return makeWorld(t, 2, worker, plain(env, "policy: elimination"), os.LookupEnv)
	}
	world := func(sasl string) *world { return worldAt("SECURED", "sasl: {mechanism: oauthbearer, "+sasl+"}") }
	write := func(name, text string) string {
		file := filepath.Join(i.dir, name)
		require.NoError(t, os.WriteFile(file, []byte(text+"\n"), 0o600))
		return file
	}
	t.Run("client credentials", func(t *testing.T) {
		t.Parallel()
		w := world(fmt.Sprintf("token_url: %q, token_ca_file: %q, username: worker, password_file: %q, scope: rank, extensions: 'logicalCluster=lkc-1'",
			i.server.URL, i.ca.file(), write("secret", wrongPassword)))
		r := w.start(t)
		r.awaitUnready(t, "invalid_client (this client is not known)")
		write("secret", clientSecret)
		r.awaitReady(t)
		begun, handed := time.Now(), i.handed.Load()
		works(t, w, r, func() bool { return time.Since(begun) > sessions*session && i.handed.Load() > handed })
	})
	t.Run("a password", func(t *testing.T) {
		t.Parallel()
		w := worldAt("ENCRYPTED", fmt.Sprintf("tls: {ca_file: %q}\n  sasl: {mechanism: scram-sha-256, username: worker, password_file: %q}",
			i.ca.file(), write("password", kafkaPassword)))
		r := w.start(t)
		r.awaitReady(t)
		begun := time.Now()
		works(t, w, r, func() bool { return time.Since(begun) > sessions*session })
	})
	t.Run("a file", func(t *testing.T) {
		t.Parallel()
		file := write("token", i.token("another", time.Hour))
		w := world(fmt.Sprintf("token_file: %q", file))
		r := w.start(t)
		r.awaitUnready(t, `the broker calls the token "invalid_token"`)
		found := doctor.Examine(t.Context(), w.file, os.LookupEnv, doctor.Options{})
		require.Contains(t, fmt.Sprint(found), "does not take the token of kafka.sasl.token_file")
		write("token", i.token(audience, time.Hour))
		r.awaitReady(t)
		p, done := w.play(t, 100, 1, nil)
		require.NoError(t, <-done)
		checkAccount(t, w.await(t, p.sent), p.sent)
		r.stop(t)
		w.ranked(t, 100)
		require.NotContains(t, w.log.String(), "eyJ", "what each token begins with")
		require.False(t, doctor.Faulty(doctor.Examine(t.Context(), w.file, os.LookupEnv, doctor.Options{})))
	})
}

// works: users play while sessions end, which nobody notices: the group stays as it is, and nothing is lost or there twice.
func works(t *testing.T, w *world, r *running, enough func() bool) {
	t.Helper()
	const impressions = 300
	before, generations := len(w.log.String()), r.generations(t)
	p, done := w.play(t, impressions, 1, nil)
	require.NoError(t, <-done)
	require.Eventually(t, enough, deadline, 20*time.Millisecond, "new sessions")
	const later = 100
	w.publish(t, w.impressions("later", later)...)
	sent := p.sent
	sent.Impressions += later
	got := w.await(t, sent)
	r.awaitReady(t)
	require.Equal(t, generations, r.generations(t), "the group rebalanced")
	require.NotContains(t, w.log.String()[before:], "level=WARN")
	require.NotContains(t, w.log.String()[before:], "EOF")
	r.stop(t)
	checkAccount(t, got, sent)
	w.ranked(t, impressions+later)
	for _, secret := range []string{clientSecret, wrongPassword, kafkaPassword, "eyJ"} {
		require.NotContains(t, w.log.String(), secret)
	}
}

// generations is how many generations of the group the worker has been in.
func (r *running) generations(t *testing.T) int {
	t.Helper()
	families, err := r.metrics.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "ranker_rebalances_total" {
			return int(f.Metric[0].GetCounter().GetValue())
		}
	}
	require.Fail(t, "no ranker_rebalances_total")
	return 0
}
