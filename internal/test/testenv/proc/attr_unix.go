//go:build unix && !linux

package proc

import "os/exec"

// setAttributes: a group of its own; when we die, the reaper does the killing.
func setAttributes(cmd *exec.Cmd) { setGroup(cmd) }
