// Package login provides the SASL credentials of connections to Kafka, as configured: users and passwords, tokens
// from a file, tokens of an OAuth endpoint, tokens signed with AWS credentials.
//
// Each new connection asks for them again, so that they may change while a worker runs. No error contains a token or
// a secret.
package login
