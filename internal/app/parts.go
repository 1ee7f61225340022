package app

import (
	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/state/redisstore"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// NewStore makes the client of the store alone, for commands that need no worker.
func NewStore(cfg *config.Config) (*redisstore.Store, error) { return newStore(cfg) }

// MachineConfig is what a worker makes the machine of each partition from. Partition, MaxRankingBytes and
// CheckCopartition are for the caller to fill in.
func MachineConfig(cfg *config.Config) (partition.Config, error) { return machineConfig(cfg) }
