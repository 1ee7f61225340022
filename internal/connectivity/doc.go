// Package connectivity says in words why a Kafka broker or a Redis server cannot be reached. What clients report of a wrong port or a
// missing setting is mostly EOF or a deadline: whoever speaks TLS to a plaintext port, or the reverse, is hung up on, or waits. So
// the address is tried once more in both ways, and what answers is said, with the setting that fits it.
//
// It sends nothing that a server keeps, and no password.
package connectivity
