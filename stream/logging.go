package stream

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// kafkaLogger passes kafka-go's log on at level debug: what matters of it comes back as errors too, which are
// logged where they are handled.
type kafkaLogger struct{ log *slog.Logger }

// Printf is part of kafka.Logger.
func (l kafkaLogger) Printf(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("kafka-go: " + strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}
