package metricslist

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMetrics(t *testing.T) {
	all, err := Metrics()
	require.NoError(t, err)
	lag := all["ranker_lag"]
	require.Equal(t, Metric{Name: "ranker_lag", Type: "gauge", Help: "Input records not yet read.", Labels: []string{"partition", "topic"}}, lag)
	require.Equal(t, "histogram", all["ranker_checkpoint_duration_seconds"].Type)
	require.Equal(t, []string{"reason", "topic"}, all["ranker_dead_letters_total"].Labels)
	require.Equal(t, []string{"reason"}, all["ranker_stopped_partitions"].Labels)
	require.Empty(t, all["ranker_rankings_total"].Labels)
	for name, m := range all {
		require.Regexp(t, `^ranker_[a-z_]+$`, name)
		require.NotEmpty(t, m.Help, name)
	}
	_, err = parse("Desc{}")
	require.Error(t, err, "the check itself can fail")
}
