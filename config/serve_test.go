package config

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestServeTokens(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	c := &Config{Serve: Serve{TokensFile: file}}
	write := func(text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o600)) }
	write("# shops\nshop-1 0123456789abcdef\r\n\n  shop-2\tfedcba9876543210\n")
	tokens, err := c.ServeTokens()
	require.NoError(t, err)
	require.Equal(t, Tokens{sha256.Sum256([]byte("0123456789abcdef")): "shop-1", sha256.Sum256([]byte("fedcba9876543210")): "shop-2"}, tokens)
	for text, want := range map[string]string{
		"":                                       "holds no token",
		"# none\n":                               "holds no token",
		"0123456789abcdef":                       "line 1 is not a name and a token",
		"\na 0123456789abcdef x":                 "line 2 is not a name and a token",
		"a/b 0123456789abcdef":                   "line 1 begins with no name",
		"a 0123456789abcde":                      "line 1 has a token of fewer than 16 characters",
		"a 0123456789abcdef\nb 0123456789abcdef": "line 2 has a token that stands in an earlier line too",
		strings.Repeat("x", 1<<20+1):             "has more than 1MiB",
	} {
		write(text)
		_, err := c.ServeTokens()
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "0123456789abcde", "no message shows a token")
	}
	c.Serve.TokensFile = ""
	tokens, err = c.ServeTokens()
	require.NoError(t, err)
	require.Nil(t, tokens)
}

// TestServeFiles: the files of `serve` are checked for `serve` only; a worker may be on another machine.
func TestServeFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "worker.yaml")
	require.NoError(t, os.WriteFile(file, []byte("kafka: {brokers: ['k:1'], group: g}\nredis: {url: 'redis://r'}\n"+
		"serve: {tokens_file: /nowhere/tokens, cert_file: /nowhere/cert, key_file: /nowhere/key}\nlearners: {a: {payoffs: stochastic}}\n"), 0o600))
	_, _, err := LoadFile(file, noEnv, KafkaFiles, RedisFiles)
	require.NoError(t, err)
	_, _, err = LoadFile(file, noEnv, KafkaFiles, ServeFiles)
	var faults Faults
	require.ErrorAs(t, err, &faults)
	require.Len(t, faults, 3)
}
