package demo

import (
	"context"
	"log/slog"
	"net"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/stream"
)

// A port in use is passed over.
func TestListen_TakesTheNextFreePort(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	port := taken.Addr().(*net.TCPAddr).Port
	server, err := listen(stream.ServerConfig{Registry: prometheus.NewRegistry(), Unready: func() []string { return nil },
		Logger: slog.New(slog.DiscardHandler)}, port)
	require.NoError(t, err)
	require.NotEqual(t, taken.Addr().String(), server.Addr())
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()
	require.NoError(t, server.Shutdown(context.Background()))
	<-served
}
