package stream

import (
	"sync"

	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// knowledge is a worker's PooledState, over its generations. Loops read it; the follower writes it while no loop runs.
type knowledge struct {
	mu     sync.RWMutex
	of     *partition.PooledState
	reader *partition.PublishedReader // used by the follower
}

func newKnowledge(c *partition.Config) *knowledge {
	return &knowledge{of: partition.NewPooledState(c.Learners, c.Names), reader: partition.NewPublishedReader(c.Learners, c.Names)}
}

// use runs a step of a loop, whose machine reads the PooledState.
func (k *knowledge) use(do func()) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	do()
}

// update writes the PooledState, and begins the next epoch. It waits for running loops, and loops wait for it.
func (k *knowledge) update(do func(*partition.PooledState)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	do(k.of)
	k.of.Commit()
}
