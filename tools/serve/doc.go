// Package serve tests the HTTP interface of `ranker-worker serve` on a live broker and worker: its behaviour, its agreement with
// docs/openapi.yaml, and clients generated from that.
package serve
