// Package failpoint kills or freezes a worker at a named point, for tests of crashes. It is compiled in by the build tag failpoints only.
// Without it Enabled is a constant false, and the compiler removes every point. The points come from the environment:
//
//	RANKER_FAILPOINTS="before produce=kill@3,after checkpoint=stop@1"
//	RANKER_FAILPOINT_SETTINGS="session_timeout=3s,clock=-1h,clock_file=/tmp/clock,fence_interval=2s"
//
// A point acts once, the n-th time that it is reached. kill is SIGKILL. stop is SIGSTOP; the test sends SIGCONT. The process prints a line
// on standard error before it acts.
//
// The file clock_file holds the clock's error, such as "1h". It is read repeatedly, so that the clock can jump at run time. Without the
// file, the setting clock is the error, by default 0.
package failpoint

const (
	PointsEnv   = "RANKER_FAILPOINTS"
	SettingsEnv = "RANKER_FAILPOINT_SETTINGS"
)
