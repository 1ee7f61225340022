package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestFiles: Load reports faults of the files that a configuration names, with line, key and the system's reason. It checks a file only if
// it is given the file's kind.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	cert, key := certificate(t, dir, "good")
	other := t.TempDir()
	_, strange := certificate(t, other, "other")
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		return path
	}
	missing, empty, text := filepath.Join(dir, "missing"), write("empty", ""), write("text", "hello\n")
	huge, unfit, password := write("huge", strings.Repeat("x", 100_000)), write("unfit", "a\x01b\n"), write("password", "x\n")
	file := func(kafkaTLS, saslFile, redisTLS, redisFile, more string) string {
		return complete(fmt.Sprintf("kafka:\n  brokers: ['127.0.0.1:9092']\n  group: g\n  tls: {%s}\n"+
			"  sasl: {mechanism: scram-sha-256, username: u, password_file: %q}\nredis:\n  addresses: ['127.0.0.1:1']\n  tls: {%s}\n"+
			"  password_file: %q\n%s", kafkaTLS, saslFile, redisTLS, redisFile, more))
	}
	pair := func(cert, key string) string { return fmt.Sprintf("cert_file: %q, key_file: %q", cert, key) }
	for name, c := range map[string]struct{ file, want string }{
		"sound": {file(fmt.Sprintf("ca_file: %q, %s", cert, pair(cert, key)), password, pair(cert, key), password, ""), ""},
		"missing": {file(fmt.Sprintf("ca_file: %q", missing), missing, pair(missing, missing), missing, "log: {level: loud}\n"), `
			4: kafka.tls.ca_file: "DIR/missing": no such file or directory
			5: kafka.sasl.password_file: "DIR/missing": no such file or directory
			8: redis.tls.cert_file: "DIR/missing": no such file or directory
			8: redis.tls.key_file: "DIR/missing": no such file or directory
			9: redis.password_file: "DIR/missing": no such file or directory
			10: log.level: "loud" is unknown; there are debug, info, warn and error`},
		"not what they should be": {file(fmt.Sprintf("ca_file: %q", text), huge, pair(key, cert), empty, ""), `
			4: kafka.tls.ca_file: "DIR/text": holds no certificate in PEM
			5: kafka.sasl.password_file: "DIR/huge": has more than 64KiB
			8: redis.tls.cert_file: "DIR/key.pem": holds no certificate in PEM
			8: redis.tls.key_file: "DIR/cert.pem": holds no private key in PEM
			9: redis.password_file: "DIR/empty": is empty`},
		"that do not go together": {file(pair(cert, strange), unfit, fmt.Sprintf("ca_file: %q", dir), password, ""), `
			4: kafka.tls.cert_file: "DIR/cert.pem": with key_file: tls: private key does not match public key
			5: kafka.sasl.password_file: "DIR/unfit": has characters in it that SCRAM does not allow (RFC 4013: control characters and the like)
			8: redis.tls.ca_file: "DIR": is a directory`},
		"that are not used": {file(fmt.Sprintf("enabled: false, ca_file: %q", missing), password, "", password, ""), ""},
		"relative": {complete("redis:\n  addresses: ['127.0.0.1:1']\n  password_file: no/such/file\n"), `
			3: redis.password_file: "no/such/file": no such file or directory, seen from the directory that the worker is started in`},
		"named by nobody": {complete(""), ""},
	} {
		_, _, err := Load("w.yaml", []byte(c.file), noEnv)
		if strings.Contains(c.want, "log.level") {
			require.EqualError(t, err, `w.yaml:10: log.level: "loud" is unknown; there are debug, info, warn and error`)
		} else {
			require.NoError(t, err, name)
		}
		_, _, err = Load("w.yaml", []byte(c.file), noEnv, KafkaFiles, RedisFiles, ServeFiles)
		got := ""
		if err != nil {
			got = strings.ReplaceAll(err.Error(), dir, "DIR")
		}
		want := ""
		for line := range strings.Lines(strings.TrimSpace(c.want)) {
			want += "w.yaml:" + strings.TrimSpace(line) + "\n"
		}
		assert.Equal(t, strings.TrimSuffix(want, "\n"), got, name)
	}
}
