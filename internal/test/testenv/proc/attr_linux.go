//go:build linux

package proc

import (
	"os/exec"
	"syscall"
)

// setAttributes: a group of its own, and killed by the kernel when we die.
func setAttributes(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
