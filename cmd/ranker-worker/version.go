package main

import (
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
)

// Set by the linker for a release: -X main.version=v1.2.3 -X main.commit=… -X main.date=…; else they come from the build itself.
var (
	version string
	commit  string
	date    string // of the commit, by RFC 3339
)

// build describes the program's build.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Date     string `json:"date"`     // of the commit
	Modified bool   `json:"modified"` // the commit had changes that were not committed
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// buildVersion reads the build's data from the linker's variables and the Go command's build info.
func buildVersion() build {
	b := build{Version: version, Commit: commit, Date: date, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		if b.Version == "" && info.Main.Version != "" {
			b.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision" && b.Commit == "":
				b.Commit = s.Value
			case s.Key == "vcs.time" && b.Date == "":
				b.Date = s.Value
			case s.Key == "vcs.modified" && commit == "":
				b.Modified = s.Value == "true"
			}
		}
	}
	if b.Version == "" {
		b.Version = "(devel)"
	}
	b.ofModule()
	if b.Commit == "" {
		b.Commit = "unknown"
	}
	if b.Date == "" {
		b.Date = "unknown"
	}
	return b
}

// pseudo matches versions that go install makes of a commit: its date, and the beginning of its hash.
var pseudo = regexp.MustCompile(`[.-](\d{14})-([0-9a-f]{12})(\+dirty)?$`)

// ofModule reads commit and date from a version that has them, where nothing else does.
func (b *build) ofModule() {
	m := pseudo.FindStringSubmatch(b.Version)
	if m == nil || b.Commit != "" {
		return
	}
	if at, err := time.Parse("20060102150405", m[1]); err == nil {
		b.Commit, b.Date, b.Modified = m[2], at.Format(time.RFC3339), m[3] != ""
	}
}

// String is the version in one line.
func (b build) String() string {
	modified := ""
	if b.Modified {
		modified = ", modified"
	}
	return fmt.Sprintf("%s (commit %s of %s%s, %s, %s)", b.Version, b.Commit, b.Date, modified, b.Go, b.Platform)
}

func newVersionCommand() *cobra.Command {
	return verb(jsonFlag, &cobra.Command{
		Use:   "version",
		Short: "Show the version, commit, date and build of this program",
		Example: `  ranker-worker version
  ranker-worker version --json`,
	}, func(c *call) error {
		b := buildVersion()
		return c.show(b, func(w io.Writer) { fmt.Fprintln(w, "ranker-worker", b) })
	})
}
