package garbage

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 100, 1: 100, 50 << 20: 100, 100 << 20: 100, 200 << 20: 50, 305 << 20: 33, 10 << 30: 33, 1 << 50: 33} {
		assert.Equal(t, want, percent(live), "%d bytes", live)
	}
}

func TestBound_FollowsTheHeap(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	large := make([]byte, 200<<20)
	runtime.GC() // which counts live bytes
	stop := Bound()
	require.Eventually(t, func() bool { return present() < 60 }, 10*time.Second, 10*time.Millisecond, "a heap of 200 MiB")
	stop()
	assert.EqualValues(t, 100, present(), "as before")
	runtime.KeepAlive(large)
}

func TestBound_LeavesGOGC(t *testing.T) {
	t.Setenv("GOGC", "100")
	defer debug.SetGCPercent(debug.SetGCPercent(70))
	Bound()()
	assert.EqualValues(t, 70, present())
}

func present() uint64 {
	s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
