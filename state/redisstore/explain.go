package redisstore

import (
	"context"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// explainer calls Options.Explain for connection errors until the server has answered once. Later errors are not about addresses, TLS and
// passwords, and Explain would delay them.
type explainer struct {
	explain func(context.Context, error) error
	reached atomic.Bool
}

var _ redis.Hook = (*explainer)(nil)

func (e *explainer) done(ctx context.Context, err error) error {
	if err == nil || e.reached.Load() {
		e.reached.Store(true)
		return err
	}
	return e.explain(ctx, err)
}

// DialHook does not explain: dialling is retried, and its last error reaches the command.
func (*explainer) DialHook(next redis.DialHook) redis.DialHook { return next }

func (e *explainer) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return e.done(ctx, next(ctx, cmd)) }
}

func (e *explainer) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
