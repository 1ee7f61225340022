//go:build !unix

package proc

import (
	"errors"
	"os"
	"os/exec"
)

type signal int

const (
	sigTerm signal = iota
	sigKill
	sigStop
	sigCont
)

// errUnsupported: process groups, signals and file locks as they are used here are those of Unix.
var errUnsupported = errors.New("real components for tests need a Unix: set RANKER_TEST_SHORT=1, " +
	"or RANKER_TEST_KAFKA and RANKER_TEST_REDIS to servers that run elsewhere")

func setGroup(*exec.Cmd) {}

func setAttributes(*exec.Cmd) {}

func signalGroup(*exec.Cmd, signal) error { return errUnsupported }

func lock(*os.File) error { return errUnsupported }
