package serve

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/ranker-worker/ranker-worker/stream"
)

const (
	// drainLimit bounds the time to answer requests under way at the end.
	drainLimit = 15 * time.Second
	// startPatience bounds the wait for Kafka before the first answer; probes are answered then.
	startPatience = 2 * time.Second
)

type Server struct {
	*stream.Server
	service *Service
}

// Listen listens at the configured address, so that a taken port is an error at once.
// health serves probes and metrics; its Listen and Pprof are ignored. Run serves.
func Listen(service *Service, health stream.ServerConfig) (*Server, error) {
	security, err := service.cfg.ServeTLS()
	if err != nil {
		return nil, err
	}
	var refuse stream.Refuse
	if service.cfg.Serve.TokensFile == "" {
		refuse = func(w http.ResponseWriter, status int, why string) { foreign(status, why).write(w) }
	}
	s, err := stream.NewServerOf(service.cfg.Serve.Listen, service.Handler(stream.NewHandler(health)), security, refuse, health.Logger)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; set another host:port", service.cfg.Where("serve.listen"), err)
	}
	return &Server{s, service}, nil
}

// Run serves until drain is done; then it answers requests under way, and waits for pending writes. Once force is done, or after drainLimit, it
// cuts them off.
func (s *Server) Run(drain, force context.Context) error {
	running, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.service.Run(running)
	}()
	served := make(chan error, 1)
	go func() {
		// Requests wait meanwhile. With an answer of Kafka, the first selection can be written as soon as the first ranking is there.
		select {
		case <-s.service.asked:
		case <-time.After(startPatience):
		case <-drain.Done():
		}
		served <- s.Serve()
	}()
	var err error
	select {
	case err = <-served:
	case <-drain.Done():
		s.service.Stop()
		limit, cancel := context.WithTimeout(force, drainLimit)
		defer cancel()
		defer context.AfterFunc(limit, s.service.writer.end)()
		err = s.Shutdown(limit)
		if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
			err = errors.Join(err, serveErr)
		}
	}
	stop()
	<-ended
	return err
}
