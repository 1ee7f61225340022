package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// Set by the linker for a release: -X main.version=v1.2.3 -X main.commit=…; else they come from the build itself.
var (
	version string
	commit  string
)

// build describes the program's build.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Modified bool   `json:"modified"` // the commit had changes that were not committed
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// buildVersion reads the build's data from the linker's variables and the Go command's build info.
func buildVersion() build {
	b := build{Version: version, Commit: commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		if b.Version == "" && info.Main.Version != "" {
			b.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision" && b.Commit == "":
				b.Commit = s.Value
			case s.Key == "vcs.modified" && commit == "":
				b.Modified = s.Value == "true"
			}
		}
	}
	if b.Version == "" {
		b.Version = "(devel)"
	}
	if b.Commit == "" {
		b.Commit = "unknown"
	}
	return b
}

// String is the version in one line.
func (b build) String() string {
	modified := ""
	if b.Modified {
		modified = ", modified"
	}
	return fmt.Sprintf("%s (commit %s%s, %s, %s)", b.Version, b.Commit, modified, b.Go, b.Platform)
}

func newVersionCommand() *cobra.Command {
	return verb(jsonFlag, &cobra.Command{
		Use:   "version",
		Short: "Show the version, revision and build of this program",
		Example: `  ranker-worker version
  ranker-worker version --json`,
	}, func(c *call) error {
		b := buildVersion()
		return c.show(b, func(w io.Writer) { fmt.Fprintln(w, "ranker-worker", b) })
	})
}
