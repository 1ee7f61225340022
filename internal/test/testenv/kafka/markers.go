package kafka

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
)

// markerSender lets the broker log timeouts of its own requests. Kafka logs them at level INFO.
const markerSender = "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.clients.NetworkClient=info"

var lostMarker = regexp.MustCompile(`(?m)^.*\[TxnMarkerSenderThread-\d+\].*due to request timeout.*$`)

// LostMarkers returns a line of the log for each request for transaction markers without an answer. During each of them, all markers for
// the same broker wait for request.timeout.ms, 30 s by default, and producers get Concurrent Transactions.
func (b *Broker) LostMarkers() ([]string, error) {
	text, err := os.ReadFile(b.process.LogPath())
	if err != nil {
		return nil, fmt.Errorf("read Kafka's log: %w", err)
	}
	return lostMarkers(text), nil
}

func lostMarkers(log []byte) (lines []string) {
	for _, line := range lostMarker.FindAll(log, -1) {
		lines = append(lines, string(bytes.TrimSpace(line)))
	}
	return lines
}

// KeepLog copies the log to a new file in the directory of temporary files, and returns its path.
func (b *Broker) KeepLog() (path string, err error) {
	from, err := os.Open(b.process.LogPath())
	if err != nil {
		return "", fmt.Errorf("keep Kafka's log: %w", err)
	}
	defer func() { _ = from.Close() }()
	to, err := os.CreateTemp("", "ranker-kafka-*.log")
	if err != nil {
		return "", fmt.Errorf("keep Kafka's log: %w", err)
	}
	_, err = io.Copy(to, from)
	if closed := to.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return "", fmt.Errorf("keep Kafka's log: %w", err)
	}
	return to.Name(), nil
}
