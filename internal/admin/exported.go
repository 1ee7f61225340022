package admin

import (
	"fmt"
	"io"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/delay"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/stream/partition"
)

// Exported returns a machine with the statistics of a learner in an export, of all its partitions together. It connects to nothing.
func Exported(cfg *config.Config, learner string, r io.Reader) (*partition.Offline, error) {
	_, sections, err := readExport(r)
	if err != nil {
		return nil, err
	}
	if sections, _, err = choose(sections, learner); err != nil {
		return nil, err
	}
	tool := &Tool{cfg: cfg}
	if tool.machine, err = app.MachineConfig(cfg); err != nil {
		return nil, err
	}
	m, err := tool.emptyMachine(0)
	if err != nil {
		return nil, err
	}
	for rank := range sections {
		share := delay.Share{Additive: true, Of: int32(len(sections)), Rank: int32(rank)}
		from, err := tool.machineOf(learner, &sections[rank])
		if err == nil {
			err = merge(m, from, learner, share)
		}
		if err != nil {
			return nil, fmt.Errorf("taking over partition %d: %w", sections[rank].partition, err)
		}
	}
	return m, nil
}
