// Package proc runs a server process on loopback for tests, benchmarks and examples, and makes sure that it ends:
// with Stop, with Kill, or with the process that started it, however that one ends.
//
// Each Process owns one goroutine (it starts the server, and waits for it) and two children: the server, in a
// process group of its own so that a Ctrl-C in the terminal reaches the tests and not the server, and a reaper, a
// shell that reads a pipe from us. When we are gone, by a panic, os.Exit or SIGKILL, the pipe closes, and the reaper
// kills the server and removes its directory. On Linux the kernel kills the server too (Pdeathsig).
package proc
