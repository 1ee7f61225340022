package stream

import (
	"runtime"
	"sync"

	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// pooledState is a worker's PooledState, over its generations. Loops read it; the follower writes it while no loop runs.
type pooledState struct {
	// turns are those of steps, one for each processor: the follower waits for steps that have begun, and with many partitions these would
	// be many.
	turns  chan struct{}
	mu     sync.RWMutex
	of     *partition.PooledState
	reader *partition.PublishedReader // used by the follower
}

func newPooledState(c *partition.Config) *pooledState {
	return &pooledState{turns: make(chan struct{}, runtime.GOMAXPROCS(0)),
		of: partition.NewPooledState(c.Learners, c.Names), reader: partition.NewPublishedReader(c.Learners, c.Names)}
}

// use runs a step of a loop, whose machine reads the PooledState.
func (k *pooledState) use(do func()) {
	k.turns <- struct{}{}
	k.mu.RLock()
	defer func() {
		k.mu.RUnlock()
		<-k.turns
	}()
	do()
}

// update writes the PooledState, and begins the next epoch. It waits for running loops, and loops wait for it.
func (k *pooledState) update(do func(*partition.PooledState)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	do(k.of)
	k.of.Commit()
}
