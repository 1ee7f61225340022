//go:build failpoints && linux

package failpoint

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Enabled reports whether points and settings are compiled in.
const Enabled = true

var (
	mu       sync.Mutex
	points   = parsePoints(os.Getenv(PointsEnv))
	settings = pairs(os.Getenv(SettingsEnv))
)

type point struct {
	signal syscall.Signal
	left   int
}

// pairs reads "a=b,c=d".
func pairs(s string) map[string]string {
	all := map[string]string{}
	for pair := range strings.SplitSeq(s, ",") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			all[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return all
}

// parsePoints exits if a point is malformed: a test without injected faults would pass.
func parsePoints(s string) map[string]*point {
	all := map[string]*point{}
	for name, what := range pairs(s) {
		action, times, _ := strings.Cut(what, "@")
		n, err := strconv.Atoi(times)
		signal, known := map[string]syscall.Signal{"kill": syscall.SIGKILL, "stop": syscall.SIGSTOP}[action]
		if err != nil || n < 1 || !known {
			fmt.Fprintf(os.Stderr, "failpoint: %s: %q makes no sense\n", PointsEnv, what)
			os.Exit(2)
		}
		all[name] = &point{signal, n}
	}
	return all
}

// Hit marks a point in the code.
func Hit(name string) {
	mu.Lock()
	p := points[name]
	if p == nil {
		mu.Unlock()
		return
	}
	p.left--
	acts := p.left == 0
	mu.Unlock()
	if !acts {
		return
	}
	fmt.Fprintf(os.Stderr, "failpoint: %s: %v\n", name, p.signal)
	// To this thread: the signal arrives before the call returns, so no code of ours runs behind the point.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_, _, _ = syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(os.Getpid()), uintptr(syscall.Gettid()), uintptr(p.signal))
}

// Duration returns a setting; 0 if it is not set.
func Duration(name string) time.Duration {
	text, ok := settings[name]
	if !ok {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		fmt.Fprintf(os.Stderr, "failpoint: %s: %s: %v\n", SettingsEnv, name, err)
		os.Exit(2)
	}
	return d
}

var (
	clock    atomic.Int64 // the result of Clock, in nanoseconds
	watching sync.Once
)

// clockEvery is the interval at which clock_file is read.
const clockEvery = 20 * time.Millisecond

// Clock returns the error of the clock. The first call starts a goroutine that lives as long as the process.
func Clock() time.Duration {
	watching.Do(func() {
		clock.Store(int64(Duration("clock")))
		path, ok := settings["clock_file"]
		if !ok {
			return
		}
		readClock(path)
		go func() {
			for range time.Tick(clockEvery) {
				readClock(path)
			}
		}()
	})
	return time.Duration(clock.Load())
}

func readClock(path string) {
	off := Duration("clock")
	if text, err := os.ReadFile(path); err == nil {
		if off, err = time.ParseDuration(strings.TrimSpace(string(text))); err != nil {
			fmt.Fprintf(os.Stderr, "failpoint: %s: %v\n", path, err)
			os.Exit(2)
		}
	}
	clock.Store(int64(off))
}
