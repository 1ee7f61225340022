package kafka

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv/proc"
)

// Cluster is several brokers, each of them a controller too.
type Cluster struct {
	Brokers []*Broker
}

// StartCluster starts a cluster with an empty log, and waits until all brokers answer. Leaders are elected only while a majority runs.
func StartCluster(ctx context.Context, opts Options, brokers int) (*Cluster, error) {
	java, jars, err := installed(ctx, &opts)
	if err != nil {
		return nil, err
	}
	var failed error
	for range startTries {
		c, err := newCluster(ctx, opts, java, jars, brokers)
		if err == nil {
			return c, nil
		}
		failed = err
		if !errors.Is(err, proc.ErrExited) || ctx.Err() != nil { // as in Start
			break
		}
	}
	return nil, failed
}

func newCluster(ctx context.Context, opts Options, java, jars string, brokers int) (*Cluster, error) {
	all, err := prepare(opts, java, jars, brokers)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Brokers: all}
	start, startCtx := errgroup.WithContext(ctx)
	for _, b := range all { // none answers before a majority runs
		start.Go(func() error {
			if err := b.format(startCtx); err != nil {
				return err
			}
			return b.Start(startCtx)
		})
	}
	if err := start.Wait(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Addrs returns the brokers' addresses, host:port, which a restart keeps.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.Brokers))
	for i, b := range c.Brokers {
		addrs[i] = b.Addr()
	}
	return addrs
}

func (c *Cluster) Close() error {
	errs := make([]error, len(c.Brokers))
	for i, b := range c.Brokers {
		errs[i] = b.Close()
	}
	return errors.Join(errs...)
}
