package audit

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/admin"
	"github.com/ranker-worker/ranker-worker/internal/app"
	"github.com/ranker-worker/ranker-worker/state"
	"github.com/ranker-worker/ranker-worker/stream/event"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// TestFrom_BasesBeforeAReshard: among several bases those of other topics, or of another number of partitions, are passed over. Alone they
// are refused.
func TestFrom_BasesBeforeAReshard(t *testing.T) {
	cfg, _, err := config.Load("w.yaml", []byte("kafka: {brokers: [\"127.0.0.1:1\"], group: g}\nredis: {url: \"redis://127.0.0.1:1/0\"}\nlearners: {feed: {}}\n"), nil)
	require.NoError(t, err)
	names := app.TopicNames(cfg)
	all := t.TempDir()
	take := func(name string, partitions int, topics []string, at time.Time) {
		for p := range partitions {
			dir := filepath.Join(all, name)
			require.NoError(t, os.MkdirAll(dir, 0o700))
			f, err := os.Create(filepath.Join(dir, fmt.Sprintf("partition-%d.jsonl.gz", p)))
			require.NoError(t, err)
			packed := gzip.NewWriter(f)
			require.NoError(t, json.NewEncoder(packed).Encode(map[string]any{"format": "ranker-worker base", "version": 1, "group": "g", "partition": p,
				"partitions": partitions, "taken": at, "meta": state.Meta{TopicNames: topics, Inputs: make([]state.Position, event.Inputs)}}))
			require.NoError(t, packed.Close())
			require.NoError(t, f.Close())
		}
	}
	took := time.Now()
	take("fewer", 1, names[:], took.Add(-2*time.Hour))
	take("other", 2, []string{"i", "s", "p", "r"}, took.Add(-time.Hour))
	topics := &Topics{cfg: cfg, partitions: make([]task.Description, 2)}
	for p := range topics.partitions {
		topics.partitions[p].Topics = make([]task.TopicFacts, event.Topics)
	}
	require.ErrorIs(t, topics.From(all), admin.ErrBeforeReshard)
	require.ErrorIs(t, topics.From(filepath.Join(all, "other")), admin.ErrBeforeReshard)
	take("now", 2, names[:], took)
	require.NoError(t, topics.From(all))
	require.Len(t, topics.bases, 1)
}
