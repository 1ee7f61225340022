package stream

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// NewLogger returns a logger that writes lines to w. Level is debug, info, warn or error; format is text or json;
// empty means info and text.
func NewLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var threshold slog.Level
	switch strings.ToLower(level) {
	case "debug":
		threshold = slog.LevelDebug
	case "", "info":
		threshold = slog.LevelInfo
	case "warn", "warning":
		threshold = slog.LevelWarn
	case "error":
		threshold = slog.LevelError
	default:
		return nil, fmt.Errorf("log level %q: has to be debug, info, warn or error", level)
	}
	opts := &slog.HandlerOptions{Level: threshold}
	switch strings.ToLower(format) {
	case "", "text":
		return slog.New(slog.NewTextHandler(w, opts)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opts)), nil
	}
	return nil, fmt.Errorf("log format %q: has to be text or json", format)
}

// kafkaLogger passes kafka-go's log on at level debug: what matters of it comes back as errors too, and is logged by
// whoever handles them.
type kafkaLogger struct{ log *slog.Logger }

// Printf is part of kafka.Logger.
func (l kafkaLogger) Printf(format string, args ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("kafka-go: " + strings.TrimSpace(fmt.Sprintf(format, args...)))
	}
}
