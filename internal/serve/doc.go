// Package serve takes impressions, selections and payoffs over HTTP, for clients that do not speak Kafka. The workers' decoder finds
// faults. A sound record is written to its topic, and answered once all in-sync replicas have it. The answer to an impression is its
// ranking, which the Service reads from the rankings topic, outside the workers' group. If it is late, the candidates by utility are a
// substitute.
//
// Package main runs a Server around a Service. Service.Run owns a goroutine per partition of the rankings (tail), and one for tokens and
// partition counts. It also owns those that write an impression or search a ranking, bounded in number and each with a deadline. It waits
// for all of them.
package serve
