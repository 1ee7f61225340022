package serve

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
)

// TestUnfitWorkerBeside: a worker whose password for Redis is wrong joins no group, is not ready and takes no partition. All impressions are
// answered with rankings of the other worker, and none by utility.
func TestUnfitWorkerBeside(t *testing.T) {
	if testenv.Short() {
		t.Skipf("left out, because %s=1: it needs a real Apache Kafka and a real redis-server", testenv.ShortEnv)
	}
	p := newPlace(t, testenv.Real(t), 4, patient, "")
	p.work(t)
	wrong := *p.cfg
	wrong.Redis.Username, wrong.Redis.Password = "nobody", "wrong"
	unfit, _ := begin(t, &wrong, prometheus.NewRegistry())
	isOutside := func() bool {
		why := strings.Join(unfit.Unready(), "")
		return strings.Contains(why, "stays outside of group") && strings.Contains(why, "WRONGPASS")
	}
	require.Eventually(t, isOutside, deadline, 10*time.Millisecond)
	r := p.open(t)
	for i := range 40 {
		require.False(t, r.rank(t, fmt.Sprintf(impression, fmt.Sprintf("i-%d", i))).Substitute) // ids of all partitions
	}
	require.True(t, isOutside())
	require.Empty(t, unfit.Statuses())
}
