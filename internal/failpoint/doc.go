// Package failpoint lets a worker die or freeze at a named point, for tests of what it does then. It is compiled in by
// the build tag failpoints only; without it Enabled is a constant false, so that the compiler takes every point out.
//
// What is to happen comes from the environment, when the process starts:
//
//	RANKER_FAILPOINTS="before produce=kill@3,after checkpoint=stop@1"
//	RANKER_FAILPOINT_SETTINGS="session_timeout=3s,clock=-1h,clock_file=/tmp/clock,fence_interval=2s"
//
// A point acts once: the n-th time that it is reached. kill is SIGKILL; stop is SIGSTOP, whose SIGCONT comes from
// outside. Before it acts it says so on standard error.
//
// The file that clock_file names holds by how much the clock is wrong, as "1h"; it is read again all the time, so that a clock
// can jump while the process runs. While it is not there the setting clock counts, which is 0 by default.
package failpoint

// The environment variables.
const (
	PointsEnv   = "RANKER_FAILPOINTS"
	SettingsEnv = "RANKER_FAILPOINT_SETTINGS"
)
