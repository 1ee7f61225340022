package login

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
)

// load reads a configuration with a section kafka.sasl.
func load(t *testing.T, sasl string) *config.Config {
	t.Helper()
	cfg, _, err := config.Load("w.yaml", []byte("kafka: {brokers: ['127.0.0.1:9092'], group: g, sasl: {"+sasl+"}}\n"+
		"redis: {url: 'redis://127.0.0.1:6379/0'}\nlearners: {feed: {payoffs: stochastic}}\n"), func(string) (string, bool) { return "", false })
	require.NoError(t, err)
	return cfg
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// first is the first message of a login.
func first(t *testing.T, cfg *config.Config) (string, error) {
	t.Helper()
	m, err := Mechanism(cfg)
	require.NoError(t, err)
	require.Equal(t, "OAUTHBEARER", m.Name())
	_, message, err := m.Start(t.Context())
	return string(message), err
}

// TestNoMechanism, and those with a user.
func TestNoMechanism(t *testing.T) {
	m, err := Mechanism(load(t, ""))
	require.NoError(t, err)
	require.Nil(t, m)
	m, err = Mechanism(load(t, "mechanism: plain, username: u, password: p"))
	require.NoError(t, err)
	require.Equal(t, "PLAIN", m.Name())
}

// TestTokenFile: it is read for each connection, and its token goes out as the RFC has it, with the extensions by name.
func TestTokenFile(t *testing.T) {
	file := write(t, "one.two.three\n")
	cfg := load(t, fmt.Sprintf("mechanism: oauthbearer, token_file: %q, extensions: 'logicalCluster=lkc-1, identityPoolId=pool-1'", file))
	m, err := Mechanism(cfg)
	require.NoError(t, err)
	for _, token := range []string{"one.two.three", "four"} {
		require.NoError(t, os.WriteFile(file, []byte(token+"\n"), 0o600))
		exchange, message, err := m.Start(t.Context())
		require.NoError(t, err)
		require.Equal(t, "n,,\x01auth=Bearer "+token+"\x01identityPoolId=pool-1\x01logicalCluster=lkc-1\x01\x01", string(message))
		done, _, err := exchange.Next(t.Context(), nil)
		require.NoError(t, err)
		require.True(t, done)
	}
	exchange, _, err := m.Start(t.Context())
	require.NoError(t, err)
	for answer, says := range map[string]string{
		`{"status":"invalid_token"}`:                  `the broker calls the token "invalid_token"`,
		`{"status":"insufficient","scope":"kafka"}`:   `and wants the scope "kafka"`,
		`no ` + strings.Repeat("x", 1000):             `the broker answered "no xxx`,
		`{"openid-configuration":"https://idp.test"}`: `the broker answered "{`,
	} {
		done, _, err := exchange.Next(t.Context(), []byte(answer))
		require.False(t, done)
		require.ErrorIs(t, err, kafka.SASLAuthenticationFailed)
		require.ErrorContains(t, err, says)
		require.Less(t, len(err.Error()), 500)
	}
	require.NoError(t, os.WriteFile(file, []byte("s3cret\x01auth=Bearer other"), 0o600))
	_, _, err = m.Start(t.Context())
	require.ErrorContains(t, err, "characters in it that no bearer token has")
	require.NotContains(t, err.Error(), "s3cret")
	require.NoError(t, os.Remove(file))
	_, _, err = m.Start(t.Context())
	require.ErrorContains(t, err, "kafka.sasl.token_file")
	_, err = Mechanism(cfg)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestClientCredentials tests the requests to the endpoint, and the handling of its answers. Errors contain neither
// secrets nor tokens.
func TestClientCredentials(t *testing.T) {
	var answer func(w http.ResponseWriter, r *http.Request)
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer(w, r)
	}))
	defer endpoint.Close()
	cfg := load(t, fmt.Sprintf("mechanism: oauthbearer, token_url: %q, username: me, password_file: %q, scope: 'a b'", endpoint.URL, write(t, "s3cret")))
	asked := 0
	answer = func(w http.ResponseWriter, r *http.Request) {
		asked++
		user, secret, _ := r.BasicAuth()
		fmt.Fprintf(w, `{"access_token":"%s-%s-%s-%s","token_type":"Bearer","expires_in":3600}`, user, secret, r.FormValue("grant_type"),
			strings.ReplaceAll(r.FormValue("scope"), " ", "-"))
	}
	m, err := Mechanism(cfg)
	require.NoError(t, err)
	for range 3 {
		_, message, err := m.Start(t.Context())
		require.NoError(t, err)
		require.Equal(t, "n,,\x01auth=Bearer me-s3cret-client_credentials-a-b\x01\x01", string(message))
	}
	require.Equal(t, 1, asked, "connections share a token")
	for says, refuses := range map[string]func(w http.ResponseWriter, r *http.Request){
		"the token endpoint refuses: invalid_client (not known)": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":"invalid_client","error_description":"not known"}`)
		},
		"the token endpoint refuses: invalid_scope": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"error":"invalid_scope"}`)
		},
		"answers 502 Bad Gateway": func(w http.ResponseWriter, r *http.Request) {
			_, secret, _ := r.BasicAuth()
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(w, "what came was "+secret)
		},
		"missing access_token": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) },
		"answers 307": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://elsewhere.test/", http.StatusTemporaryRedirect)
		},
	} {
		answer = refuses
		_, err := first(t, cfg)
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, "kafka.sasl.token_url")
		require.NotContains(t, err.Error(), "s3cret")
	}
	endpoint.Close()
	_, err = first(t, cfg)
	require.ErrorContains(t, err, "connection refused")
}

// TestCache: a token is used until a fifth of its time is left, and where no other is to be had until it ends.
func TestCache(t *testing.T) {
	now := time.Unix(1e9, 0)
	var away error
	n := 0
	c := newCache(func(context.Context) (token, error) {
		n++
		return token{fmt.Sprint(n), now.Add(100 * time.Second)}, away
	}, func() time.Time { return now })
	is := func(after time.Duration, want string) {
		t.Helper()
		now = now.Add(after)
		got, err := c.Token(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	is(0, "1")
	is(79*time.Second, "1")
	is(time.Second, "2")
	away = errors.New("away")
	is(99*time.Second, "2")
	now = now.Add(time.Second)
	_, err := c.Token(t.Context())
	require.ErrorIs(t, err, away)
	away = nil
	is(0, "5")
	c.fetch = func(context.Context) (token, error) { n++; return token{fmt.Sprint(n), time.Time{}}, nil }
	is(80*time.Second, "6")
	is(0, "7") // nobody knows when it ends
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	c.turn <- struct{}{}
	_, err = c.Token(ended)
	require.ErrorIs(t, err, context.Canceled)
}

// TestCache_OfAnIssuerThatHangs: connections use the token that is still valid, and have time left.
func TestCache_OfAnIssuerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := false
		c := newCache(func(ctx context.Context) (token, error) {
			if hangs {
				<-ctx.Done()
				return token{}, ctx.Err()
			}
			return token{"first", time.Now().Add(100 * time.Second)}, nil
		}, time.Now)
		_, err := c.Token(t.Context())
		require.NoError(t, err)
		hangs = true
		time.Sleep(85 * time.Second) // on the clock of synctest
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				got, err := c.Token(ctx)
				assert.NoError(t, err)
				assert.Equal(t, "first", got)
				assert.NoError(t, ctx.Err())
			})
		}
		all.Wait()
		time.Sleep(20 * time.Second) // likewise
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err = c.Token(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded, "it has ended")
	})
}

// TestCache_Suspended: while a machine sleeps its monotonic clock may stand still, and a token ends nevertheless.
func TestCache_Suspended(t *testing.T) {
	now, n := time.Now(), 0
	c := newCache(func(context.Context) (token, error) {
		n++
		return token{fmt.Sprint(n), now.Add(100 * time.Second)}, nil
	}, func() time.Time { return now })
	first, err := c.Token(t.Context())
	require.NoError(t, err)
	require.Equal(t, "1", first)
	const second = 1 << 30 // of the wall clock, in a time that has a monotonic reading too
	*(*uint64)(unsafe.Pointer(&now)) += 100 * second
	require.WithinDuration(t, time.Now().Add(100*time.Second).Round(0), now.Round(0), 50*time.Second)
	next, err := c.Token(t.Context())
	require.NoError(t, err)
	require.Equal(t, "2", next)
}

// TestAWS: the token is a URL signed by Signature Version 4, recomputed here, with the environment's credentials and
// region.
func TestAWS(t *testing.T) {
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "s3cret", "AWS_SESSION_TOKEN": "session/+=",
		"AWS_REGION": "eu-west-1", "AWS_CONFIG_FILE": write(t, ""), "AWS_SHARED_CREDENTIALS_FILE": write(t, ""), "AWS_PROFILE": "", "AWS_DEFAULT_REGION": ""} {
		t.Setenv(name, value)
	}
	message, err := first(t, load(t, "mechanism: aws-msk-iam"))
	require.NoError(t, err)
	query := signedBy(t, message, "eu-west-1", "s3cret")
	require.Equal(t, "kafka-cluster:Connect", query.Get("Action"))
	require.Equal(t, "session/+=", query.Get("X-Amz-Security-Token"))
	require.True(t, strings.HasPrefix(query.Get("X-Amz-Credential"), "AKIDEXAMPLE/"))
	message, err = first(t, load(t, "mechanism: aws-msk-iam, region: us-east-2"))
	require.NoError(t, err)
	signedBy(t, message, "us-east-2", "s3cret")
	token, err := signed("us-east-2", credentials.NewStaticCredentialsProvider("A", "other", ""))(t.Context())
	require.NoError(t, err)
	signedBy(t, "n,,\x01auth=Bearer "+token+"\x01\x01", "us-east-2", "other")
	t.Setenv("AWS_REGION", "")
	_, err = Mechanism(load(t, "mechanism: aws-msk-iam"))
	require.ErrorContains(t, err, "set region, or AWS_REGION")
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	_, err = first(t, load(t, "mechanism: aws-msk-iam, region: us-east-2"))
	require.ErrorContains(t, err, "signing a token for Amazon MSK")
}

// signedBy checks the signature of a login's message, and gives the query of the URL that is its token.
func signedBy(t *testing.T, message, region, secret string) url.Values {
	t.Helper()
	token, ok := strings.CutPrefix(strings.TrimSuffix(message, "\x01\x01"), "n,,\x01auth=Bearer ")
	require.True(t, ok)
	text, err := base64.RawURLEncoding.DecodeString(token)
	require.NoError(t, err)
	u, err := url.Parse(string(text))
	require.NoError(t, err)
	require.Equal(t, "https://kafka."+region+".amazonaws.com/", u.Scheme+"://"+u.Host+u.Path)
	all := u.Query()
	query := u.Query()
	query.Del("X-Amz-Signature")
	query.Del("User-Agent") // added when it is signed
	date := query.Get("X-Amz-Date")
	scope := date[:8] + "/" + region + "/kafka-cluster/aws4_request"
	request := strings.Join([]string{"GET", "/", strings.ReplaceAll(query.Encode(), "+", "%20"), "host:" + u.Host, "", "host", sum("")}, "\n")
	key := []byte("AWS4" + secret)
	for _, part := range append(strings.Split(scope, "/"), strings.Join([]string{"AWS4-HMAC-SHA256", date, scope, sum(request)}, "\n")) {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(part))
		key = h.Sum(nil)
	}
	require.Equal(t, hex.EncodeToString(key), all.Get("X-Amz-Signature"))
	require.Equal(t, "900", all.Get("X-Amz-Expires"))
	return all
}

func sum(text string) string {
	s := sha256.Sum256([]byte(text))
	return hex.EncodeToString(s[:])
}
