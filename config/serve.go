package config

import (
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Serve configures the HTTP server of `ranker-worker serve`.
type Serve struct {
	Listen       string // host:port
	CertFile     string // PEM; empty: no TLS. Goes with KeyFile
	KeyFile      string
	TokensFile   string        // of permitted senders; empty: everybody who reaches Listen
	Timeout      time.Duration // of a wait for a ranking
	Remember     int64         // bytes of recent rankings kept in memory
	MaxBodyBytes int64         // of one request
	Concurrency  int           // concurrent requests
	Rate         int           // requests a second, in total
}

func checkServe(s *section, v *Serve) {
	if !s.ok("listen", "cert_file", "key_file", "tokens_file") {
		return
	}
	switch {
	case v.CertFile != "" && v.KeyFile == "":
		s.fault("cert_file", "needs key_file too")
	case v.CertFile == "" && v.KeyFile != "":
		s.fault("key_file", "needs cert_file too")
	}
	switch {
	case isLoopback(v.Listen):
	case v.TokensFile == "":
		s.warn("listen", "without tokens_file whoever reaches %s may send records", v.Listen)
	case v.CertFile == "":
		s.warn("listen", "without cert_file tokens go readable over the network")
	}
}

func (v *Serve) tls() *TLS {
	return &TLS{Enabled: v.CertFile != "", CertFile: v.CertFile, KeyFile: v.KeyFile}
}

func (v *Serve) faults() []*fileFault {
	all := v.tls().faults()
	if v.TokensFile != "" {
		if _, f := readTokens(v.TokensFile); f != nil {
			all = append(all, f)
		}
	}
	return all
}

// ServeTLS returns the TLS settings of `serve`; nil without encryption. Each handshake reads the files.
func (c *Config) ServeTLS() (*tls.Config, error) {
	v := &c.Serve
	if v.CertFile == "" {
		return nil, nil
	}
	load := func() (*tls.Certificate, error) {
		cert, faults := v.tls().pair()
		if len(faults) > 0 {
			return nil, fmt.Errorf("%s: %w", c.Where("serve."+faults[0].key), faults[0])
		}
		return cert, nil
	}
	if _, err := load(); err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return load() }}, nil
}

// Tokens holds the names of the permitted senders, by the SHA-256 of their tokens. The tokens themselves are not kept, and a look-up takes
// equally long for any token.
type Tokens map[[sha256.Size]byte]string

// ServeTokens reads serve.tokens_file; nil without one.
func (c *Config) ServeTokens() (Tokens, error) {
	file := c.Serve.TokensFile
	if file == "" {
		return nil, nil
	}
	tokens, f := readTokens(file)
	if f != nil {
		return nil, fmt.Errorf("%s: %w", c.Where("serve.tokens_file"), f)
	}
	return tokens, nil
}

const (
	mostTokensBytes = 1 << 20
	leastToken      = 16 // characters: shorter ones can be guessed
)

// readTokens reads lines of a name and a token. Its faults do not show tokens.
func readTokens(file string) (Tokens, *fileFault) {
	data, err := readFile(file, mostTokensBytes)
	tokens := Tokens{}
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if err != nil || line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if e := tokens.add(strings.Fields(line)); e != nil {
			err = fmt.Errorf("line %d %w", i+1, e)
		}
	}
	if err == nil && len(tokens) == 0 {
		err = errors.New("holds no token: each line has a name and a token")
	}
	if err != nil {
		return nil, &fileFault{"tokens_file", file, err}
	}
	return tokens, nil
}

func (t Tokens) add(fields []string) error {
	switch {
	case len(fields) != 2:
		return errors.New("is not a name and a token")
	case !isName(fields[0], true) || len(fields[0]) > 64:
		return errors.New("begins with no name: up to 64 letters, digits, '.', '_' and '-'")
	case len(fields[1]) < leastToken:
		return fmt.Errorf("has a token of fewer than %d characters", leastToken)
	}
	sum := sha256.Sum256([]byte(fields[1]))
	if _, twice := t[sum]; twice {
		return errors.New("has a token that stands in an earlier line too")
	}
	t[sum] = fields[0]
	return nil
}
