package login

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/ranker-worker/ranker-worker/config"
)

// client requests tokens from an endpoint, by OAuth 2.0 client credentials (RFC 6749, 4.4).
type client struct {
	cfg    *config.Config
	cached *cache
}

func newClient(cfg *config.Config) *client {
	c := &client{cfg: cfg}
	c.cached = newCache(c.fetch, time.Now)
	return c
}

// config returns the endpoint's and the TLS settings, from the present files.
func (c *client) config() (*clientcredentials.Config, *tls.Config, error) {
	s := &c.cfg.Kafka.SASL
	secret, err := c.cfg.SASLPassword()
	if err != nil {
		return nil, nil, err
	}
	roots, err := c.cfg.SASLTokenRoots()
	if err != nil {
		return nil, nil, err
	}
	return &clientcredentials.Config{ClientID: s.Username, ClientSecret: secret, TokenURL: s.TokenURL, Scopes: strings.Fields(s.Scope)},
		&tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots}, nil
}

// fetchTimeout bounds one request, if the connection has more time.
const fetchTimeout = 10 * time.Second

func (c *client) fetch(ctx context.Context) (token, error) {
	asks, security, err := c.config()
	if err != nil {
		return token{}, err
	}
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: security, ForceAttemptHTTP2: true, DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	// A redirect would carry the secret elsewhere.
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }})
	got, err := asks.Token(ctx)
	if err != nil {
		return token{}, fmt.Errorf("%s: %w", c.cfg.Where("kafka.sasl.token_url"), plainly(err))
	}
	return token{got.AccessToken, got.Expiry}, nil
}

// plainly reduces an endpoint's refusal to the RFC's fields (5.2), without its body.
func plainly(err error) error {
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) {
		return err
	}
	status := ""
	if refused.Response != nil {
		status = refused.Response.Status
	}
	switch {
	case refused.ErrorCode != "" && refused.ErrorDescription != "":
		return fmt.Errorf("the token endpoint refuses: %s (%s)", refused.ErrorCode, refused.ErrorDescription)
	case refused.ErrorCode != "":
		return fmt.Errorf("the token endpoint refuses: %s", refused.ErrorCode)
	}
	return fmt.Errorf("the token endpoint answers %s, which is no token", status)
}
