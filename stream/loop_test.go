package stream

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	kafka "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/ranker-worker/ranker-worker/internal/test/memstore"
	"github.com/ranker-worker/ranker-worker/state"
)

// hanging is a store that takes requests and answers none, as Redis' client does for a server that hangs.
type hanging struct {
	state.AdminStore
	asked, answers chan struct{}
}

func (s *hanging) Acquire(context.Context, int32, int64, bool, *state.Meta) (m state.Meta, err error) {
	close(s.asked)
	<-s.answers
	return m, state.ErrNoState
}

// TestLoop_EndsBesideAStoreThatHangs: a worker that is to stop at once waits for no answer of Redis.
func TestLoop_EndsBesideAStoreThatHangs(t *testing.T) {
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	c.ControlKey(int16(kmsg.Heartbeat), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return req.ResponseKind(), nil, true
	})
	m, err := NewMembership(MembershipConfig{Brokers: c.ListenAddrs(), GroupID: "g", Topics: []string{"t"}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close(context.Background()) })
	store := &hanging{memstore.New(nil), make(chan struct{}), make(chan struct{})}
	w := NewWorker(Options{Group: "g", Membership: m, Store: store, Metrics: NewMetrics(prometheus.NewRegistry()), Log: func(int32) Log { return nil },
		Logger: slog.New(slog.DiscardHandler)})
	l := newLoop(w, &Generation{m: m, gen: &kafka.Generation{ID: 1, MemberID: "m"}, done: make(chan struct{})}, 0, w.opt.Logger)
	ending, end := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		l.run(ending, t.Context())
		close(ended)
	}()
	<-store.asked
	end()
	select {
	case <-ended:
	case <-time.After(discardTimeout + 4*time.Second):
		t.Error("it waits")
	}
	close(store.answers)
	<-ended
}
