// Package login makes of the configuration what a connection to Kafka logs in with: users and passwords, tokens from a file, tokens
// of a token endpoint, tokens that AWS credentials sign.
//
// Whatever may change while a worker runs is asked for by each connection anew. Neither tokens nor secrets stand in an error.
package login
