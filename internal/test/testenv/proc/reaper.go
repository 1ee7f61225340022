package proc

import (
	"fmt"
	"io"
	"os/exec"
	"strconv"
)

// reaperScript waits for a line or the end of its input. A line means that the server has been waited for, so that its process id may
// belong to another process. The end of input alone means that this process is gone.
const reaperScript = `
if read -r line; then cat >/dev/null; exit 0; fi
kill -KILL "-$1" 2>/dev/null
if [ -n "$2" ]; then sleep 0.2; rm -rf -- "$2"; fi
exit 0
`

// reaper outlives this process until it has cleaned up.
type reaper struct {
	pipe io.WriteCloser
	cmd  *exec.Cmd
}

// startReaper watches the process group pgid and dir, which is removed if this process ends early; empty: none.
func startReaper(pgid int, dir string) (*reaper, error) {
	cmd := exec.Command("/bin/sh", "-c", reaperScript, "reaper", strconv.Itoa(pgid), dir)
	setGroup(cmd)
	pipe, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("pipe to the reaper: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the reaper: %w", err)
	}
	return &reaper{pipe: pipe, cmd: cmd}, nil
}

// forget dismisses the reaper.
func (r *reaper) forget() {
	_, _ = io.WriteString(r.pipe, "ended\n")
	_ = r.pipe.Close()
	_ = r.cmd.Wait()
}
