package config

import (
	"crypto/tls"
	"crypto/x509"
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

func (t *TLS) build(c *Config, section string) (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil
	}
	roots, f := authorities(section+".ca_file", t.CAFile)
	if f != nil {
		return nil, c.faultOf(f)
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName, RootCAs: roots}
	if t.CertFile == "" {
		return out, nil
	}
	load, err := t.renewed(c, section)
	if err != nil {
		return nil, err
	}
	out.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	return out, nil
}

// SASLPassword returns the password for Kafka, from kafka.sasl.password_file if that is set.
func (c *Config) SASLPassword() (string, error) {
	return c.secret("kafka.sasl.password_file", c.Kafka.SASL.PasswordFile, c.Kafka.SASL.Password)
}

// SASLToken returns the token in kafka.sasl.token_file.
func (c *Config) SASLToken() (string, error) {
	return c.token("kafka.sasl.token_file", c.Kafka.SASL.TokenFile)
}

// SASLTokenRoots returns the authorities for kafka.sasl.token_url's certificate; nil: the system's.
func (c *Config) SASLTokenRoots() (*x509.CertPool, error) {
	pool, f := authorities("kafka.sasl.token_ca_file", c.Kafka.SASL.TokenCAFile)
	return pool, c.faultOf(f)
}

// RedisPassword returns the password for Redis, from redis.password_file if that is set; empty for none.
func (c *Config) RedisPassword() (string, error) {
	return c.secret("redis.password_file", c.Redis.PasswordFile, c.Redis.Password)
}

// RegistryPassword returns the password for the schema registry, from its password_file if that is set.
func (c *Config) RegistryPassword() (string, error) {
	return c.secret("kafka.schema_registry.password_file", c.Kafka.SchemaRegistry.PasswordFile, c.Kafka.SchemaRegistry.Password)
}

// RegistryToken returns the bearer token for the schema registry; empty for none.
func (c *Config) RegistryToken() (string, error) {
	return c.token("kafka.schema_registry.token_file", c.Kafka.SchemaRegistry.TokenFile)
}

// secret returns the secret in a key's file; without a file, that of the configuration itself.
func (c *Config) secret(key, file string, own Secret) (string, error) {
	if file == "" {
		return string(own), nil
	}
	text, f := readSecret(key, file)
	return text, c.faultOf(f)
}

func (c *Config) token(key, file string) (string, error) {
	text, err := c.secret(key, file, "")
	return strings.TrimSpace(text), err
}

func (l Log) Least() (least slog.Level) {
	_ = least.UnmarshalText([]byte(l.Level)) // fails for no level that a file may have
	return least
}

// Logger returns a logger of the configured format. Its level may change.
func (l Log) Logger(w io.Writer, least slog.Leveler) *slog.Logger {
	options := &slog.HandlerOptions{Level: least}
	if l.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
