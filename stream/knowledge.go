package stream

import (
	"sync"

	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// knowledge is what all learners of a worker know over all partitions, over its generations. Loops read it, and the follower tells it,
// while no loop is about to.
type knowledge struct {
	mu     sync.RWMutex
	of     *partition.PooledState
	reader *partition.PublishedReader // the follower's
}

func newKnowledge(c *partition.Config) *knowledge {
	return &knowledge{of: partition.NewPooledState(c.Learners, c.Names), reader: partition.NewPublishedReader(c.Learners, c.Names)}
}

// use lets a loop use its machine, which reads what is known.
func (k *knowledge) use(do func()) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	do()
}

// tell begins the next epoch. It waits for the loops to come round, and they for it.
func (k *knowledge) tell(do func(*partition.PooledState)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	do(k.of)
	k.of.Commit()
}
