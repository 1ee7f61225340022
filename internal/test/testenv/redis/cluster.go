package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// Cluster is a Redis Cluster of masters, each of which serves about the same number of slots.
type Cluster struct {
	Nodes []*Server
}

const (
	slots      = 16384
	settleTime = time.Minute
)

// StartCluster starts that many nodes with these options, and waits until they are one cluster.
func StartCluster(ctx context.Context, opts Options, nodes int) (_ *Cluster, err error) {
	c := &Cluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	opts.Args = append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000",
		"--cluster-require-full-coverage", "no"}, opts.Args...)
	for range nodes {
		n, err := Start(ctx, opts)
		if err != nil {
			return nil, err
		}
		c.Nodes = append(c.Nodes, n)
	}
	host, port, err := net.SplitHostPort(c.Nodes[0].Addr())
	if err != nil {
		return nil, err
	}
	for i, n := range c.Nodes {
		err := n.use(func(client *goredis.Client) error {
			err := client.ClusterAddSlotsRange(ctx, i*slots/nodes, (i+1)*slots/nodes-1).Err()
			if i > 0 {
				err = errors.Join(err, client.ClusterMeet(ctx, host, port).Err())
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("make a Redis Cluster: %w", err)
		}
	}
	return c, c.Await(ctx)
}

// Await waits until all nodes know all slots to be served.
func (c *Cluster) Await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := c.whole(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the Redis Cluster does not serve all slots: %w", err)
		case <-tick.C:
		}
	}
}

func (c *Cluster) whole(ctx context.Context) error {
	for _, n := range c.Nodes {
		err := n.use(func(client *goredis.Client) error {
			info, err := client.ClusterInfo(ctx).Result()
			if err == nil && !(strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, fmt.Sprintf("cluster_slots_ok:%d", slots))) {
				err = errors.New(info)
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("%s: %w", n.Addr(), err)
		}
	}
	return nil
}

// use runs f with a client of this node alone.
func (s *Server) use(f func(client *goredis.Client) error) error {
	client := goredis.NewClient(&goredis.Options{Addr: s.Addr(), Password: s.password(), MaxRetries: -1, DialTimeout: time.Second})
	defer func() { _ = client.Close() }()
	return f(client)
}

// Addrs are the nodes' addresses, host:port.
func (c *Cluster) Addrs() (all []string) {
	for _, n := range c.Nodes {
		all = append(all, n.Addr())
	}
	return all
}

// Close ends all nodes and removes their directories.
func (c *Cluster) Close() (err error) {
	for _, n := range c.Nodes {
		err = errors.Join(err, n.Close())
	}
	return err
}
