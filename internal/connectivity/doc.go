// Package connectivity explains why a Kafka broker or a Redis server cannot be reached. For a wrong port or a missing TLS setting, client
// libraries mostly report EOF or a timeout. So the package connects once more, with TLS and without, and names the setting that fits the
// answer. It sends no password, and no data that a server stores.
package connectivity
