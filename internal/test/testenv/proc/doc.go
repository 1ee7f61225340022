// Package proc runs a server process on loopback for tests, benchmarks and examples, which ends by Stop, by Kill, or with the process that
// started it.
//
// Each Process owns one goroutine, which starts the server and waits for it, and two children. The server has a process group of its own,
// so that Ctrl-C in the terminal reaches the tests only. The reaper is a shell that reads a pipe from this process. When the process ends,
// by a panic, os.Exit or SIGKILL, the pipe closes, and the reaper kills the server and removes its directory. On Linux the kernel kills the
// server too (Pdeathsig).
package proc
