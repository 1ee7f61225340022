package app

import (
	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/state/redisstore"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// NewStore returns a client of the store, for commands without a worker.
func NewStore(cfg *config.Config) (*redisstore.Store, error) { return newStore(cfg) }

// MachineConfig returns the configuration of each partition's machine, without Partition, MaxRankingBytes and CheckCopartition.
func MachineConfig(cfg *config.Config) (partition.Config, error) { return machineConfig(cfg) }
