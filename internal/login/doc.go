// Package login provides the configured SASL credentials of connections to Kafka: users and passwords, tokens from a file, of an OAuth
// endpoint, or signed with AWS credentials. Each new connection requests them, so that they may change at run time. No error contains a
// token or a secret.
package login
