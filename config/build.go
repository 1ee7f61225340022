package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
)

// TLSConfig makes what connections to Kafka need; nil where they are not encrypted. It reads the files of kafka.tls.
func (c *Config) TLSConfig() (*tls.Config, error) { return c.Kafka.TLS.build(c, "kafka.tls") }

// RedisTLSConfig is TLSConfig for Redis.
func (c *Config) RedisTLSConfig() (*tls.Config, error) { return c.Redis.TLS.build(c, "redis.tls") }

func (t TLS) build(c *Config, key string) (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Where(key+".ca_file"), err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: %s has no certificate in PEM", c.Where(key+".ca_file"), t.CAFile)
		}
	}
	if t.CertFile == "" {
		return out, nil
	}
	// Certificates are renewed while the worker runs, so each handshake reads the files; the first time is now.
	load := func() (*tls.Certificate, error) {
		cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Where(key+".cert_file"), err)
		}
		return &cert, nil
	}
	if _, err := load(); err != nil {
		return nil, err
	}
	out.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	return out, nil
}

// SASLPassword is the password for Kafka, read from kafka.sasl.password_file if that is set.
func (c *Config) SASLPassword() (string, error) {
	return c.password("kafka.sasl.password_file", c.Kafka.SASL.Password, c.Kafka.SASL.PasswordFile)
}

// RedisPassword is the password for Redis, read from redis.password_file if that is set; empty for none.
func (c *Config) RedisPassword() (string, error) {
	return c.password("redis.password_file", c.Redis.Password, c.Redis.PasswordFile)
}

// password reads a secret's file, without the line's end that editors and echo leave.
func (c *Config) password(key string, secret Secret, file string) (string, error) {
	if file == "" {
		return string(secret), nil
	}
	const longest = 64 << 10
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("%s: %w", c.Where(key), err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, longest+1))
	switch {
	case err != nil:
	case len(data) > longest:
		err = errors.New("too large for a password")
	case strings.TrimRight(string(data), "\r\n") == "":
		err = errors.New("the file is empty")
	}
	if err != nil {
		return "", fmt.Errorf("%s: %s: %w", c.Where(key), file, err)
	}
	return strings.TrimRight(string(data), "\r\n"), nil
}

// Logger makes the logger that the log section asks for.
func (l Log) Logger(w io.Writer) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelInfo}
	switch l.Level {
	case "debug":
		options.Level = slog.LevelDebug
	case "warn":
		options.Level = slog.LevelWarn
	case "error":
		options.Level = slog.LevelError
	}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
