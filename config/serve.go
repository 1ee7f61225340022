package config

import (
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
)

func checkServe(s *section, v *Serve) {
	if !s.ok("listen", "cert_file", "key_file", "tokens_file") {
		return
	}
	s.checkPair(v.CertFile, v.KeyFile)
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

// ServeTLS returns the TLS settings of `serve`; nil without encryption. Each handshake reads the files.
func (c *Config) ServeTLS() (*tls.Config, error) {
	if c.Serve.CertFile == "" {
		return nil, nil
	}
	load, err := c.Serve.tls().renewed(c, "serve")
	if err != nil {
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
	tokens, f := readTokens("serve.tokens_file", c.Serve.TokensFile)
	return tokens, c.faultOf(f)
}

const (
	mostTokensBytes = 1 << 20
	leastToken      = 16 // characters: shorter ones can be guessed
)

// readTokens reads lines of a name and a token; nil without a file. Its faults do not show tokens.
func readTokens(key, file string) (Tokens, *fileFault) {
	if file == "" {
		return nil, nil
	}
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
		return nil, &fileFault{key, file, err}
	}
	return tokens, nil
}

func (t Tokens) add(fields []string) error {
	switch {
	case len(fields) != 2:
		return errors.New("is not a name and a token")
	case !plainName.MatchString(fields[0]) || len(fields[0]) > 64:
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
