// Package serve tries the HTTP interface of `ranker-worker serve` on a live broker and worker: what it does, that it does what
// docs/openapi.yaml says, and that clients which are generated from that work.
package serve
