package stream

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// kafkaLogger passes kafka-go's log on at level debug: errors that matter are also returned, and logged by their handlers.
type kafkaLogger struct{ log *slog.Logger }

// Printf implements kafka.Logger.
func (l kafkaLogger) Printf(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("kafka-go: " + strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}
