package config

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// TLSConfig returns the TLS settings of connections to Kafka, from the files of kafka.tls; nil without encryption.
func (c *Config) TLSConfig() (*tls.Config, error) { return c.Kafka.TLS.build(c, "kafka.tls") }

func (c *Config) RedisTLSConfig() (*tls.Config, error) { return c.Redis.TLS.build(c, "redis.tls") }

// RegistryTLSConfig is TLSConfig for the schema registry, whose URL decides on encryption.
func (c *Config) RegistryTLSConfig() (*tls.Config, error) {
	return c.Kafka.SchemaRegistry.TLS.build(c, "kafka.schema_registry.tls")
}

func (t *TLS) build(c *Config, key string) (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil
	}
	named := func(f *fileFault) error { return fmt.Errorf("%s: %w", c.Where(key+"."+f.key), f) }
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	if t.CAFile != "" {
		pool, f := authorities("ca_file", t.CAFile)
		if f != nil {
			return nil, named(f)
		}
		out.RootCAs = pool
	}
	if t.CertFile == "" {
		return out, nil
	}
	// Certificates are renewed at run time, so each handshake reads the files; the first time is now.
	load := func() (*tls.Certificate, error) {
		cert, faults := t.pair()
		if len(faults) > 0 {
			return nil, named(faults[0])
		}
		return cert, nil
	}
	if _, err := load(); err != nil {
		return nil, err
	}
	out.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	return out, nil
}

// SASLPassword returns the password for Kafka, from kafka.sasl.password_file if that is set.
func (c *Config) SASLPassword() (string, error) {
	return c.password("kafka.sasl", c.Kafka.SASL.Password, c.Kafka.SASL.PasswordFile)
}

// SASLToken returns the token in kafka.sasl.token_file.
func (c *Config) SASLToken() (string, error) {
	token, f := readSecret("token_file", c.Kafka.SASL.TokenFile)
	if f != nil {
		return "", fmt.Errorf("%s: %w", c.Where("kafka.sasl.token_file"), f)
	}
	return strings.TrimSpace(token), nil
}

// SASLTokenRoots returns the authorities for kafka.sasl.token_url's certificate; nil: the system's.
func (c *Config) SASLTokenRoots() (*x509.CertPool, error) {
	if c.Kafka.SASL.TokenCAFile == "" {
		return nil, nil
	}
	pool, f := authorities("token_ca_file", c.Kafka.SASL.TokenCAFile)
	if f != nil {
		return nil, fmt.Errorf("%s: %w", c.Where("kafka.sasl.token_ca_file"), f)
	}
	return pool, nil
}

// RedisPassword returns the password for Redis, from redis.password_file if that is set; empty for none.
func (c *Config) RedisPassword() (string, error) {
	return c.password("redis", c.Redis.Password, c.Redis.PasswordFile)
}

// RegistryPassword returns the password for the schema registry, from its password_file if that is set.
func (c *Config) RegistryPassword() (string, error) {
	return c.password("kafka.schema_registry", c.Kafka.SchemaRegistry.Password, c.Kafka.SchemaRegistry.PasswordFile)
}

// RegistryToken returns the bearer token for the schema registry; empty for none.
func (c *Config) RegistryToken() (string, error) {
	file := c.Kafka.SchemaRegistry.TokenFile
	if file == "" {
		return "", nil
	}
	token, f := readSecret("token_file", file)
	if f != nil {
		return "", fmt.Errorf("%s: %w", c.Where("kafka.schema_registry."+f.key), f)
	}
	return strings.TrimSpace(token), nil
}

func (c *Config) password(section string, secret Secret, file string) (string, error) {
	if file == "" {
		return string(secret), nil
	}
	password, f := readSecret("password_file", file)
	if f != nil {
		return "", fmt.Errorf("%s: %w", c.Where(section+"."+f.key), f)
	}
	return password, nil
}

func (l Log) Least() slog.Level {
	switch l.Level {
	case "debug":
		return slog.LevelDebug
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	}
	return slog.LevelInfo
}

// Logger returns a logger of the configured format. Its level may change.
func (l Log) Logger(w io.Writer, least slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: least}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
