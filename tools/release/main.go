// Command release builds the files of a release in dist/, and checks such files. The same commit and version give the same bytes.
//
//	release -version 0.1.0            # make release VERSION=0.1.0
//	release -verify -version 0.1.0    # make verify-release VERSION=0.1.0
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// target is an operating system and an architecture.
type target struct{ os, arch string }

var targets = []target{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

const program = "ranker-worker"

// versions are those of semver.org, without a leading v.
var versions = regexp.MustCompile(`^\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

func main() {
	version := flag.String("version", "", "the release's `version`, such as 0.1.0")
	dist := flag.String("dist", "dist", "`directory` of the files")
	verify := flag.Bool("verify", false, "check the files, and build nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *version, *dist, *verify); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, version, dist string, verify bool) error {
	if !versions.MatchString(version) {
		return fmt.Errorf("%q is no version: give one as MAJOR.MINOR.PATCH, without a v (make release VERSION=0.1.0)", version)
	}
	if verify {
		if err := verifyRelease(dist, version); err != nil {
			return err
		}
		fmt.Println("all files of", version, "are as they were released")
		return nil
	}
	return build(ctx, version, dist)
}

// build builds all files from the working tree, which must be that of a commit.
func build(ctx context.Context, version, dist string) error {
	if changed, err := output(ctx, "git", "status", "--porcelain"); err != nil || changed != "" {
		return errors.Join(err, errors.New("the working tree has changes: commit them, so that the release can be built again"))
	}
	commit, err := output(ctx, "git", "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	seconds, err := output(ctx, "git", "log", "-1", "--format=%ct")
	if err != nil {
		return err
	}
	at, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return fmt.Errorf("the commit's time: %w", err)
	}
	if err := os.MkdirAll(dist, 0o755); err != nil {
		return err
	}
	r := release{version: version, dist: dist, at: time.Unix(at, 0).UTC()}
	for _, t := range targets {
		fmt.Printf("building for %s on %s\n", t.os, t.arch)
		binary, err := r.compile(ctx, commit, t)
		if err != nil {
			return err
		}
		if err := r.addProgram(t, binary); err != nil {
			return err
		}
	}
	if err := r.addChart(filepath.Join("deploy", "chart")); err != nil {
		return err
	}
	return r.sum()
}

// compile builds the program and returns it.
func (r *release) compile(ctx context.Context, commit string, t target) ([]byte, error) {
	dir, err := os.MkdirTemp("", "release-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, program)
	// The flags are those of deploy/Dockerfile: static, without paths of this machine and without a symbol table.
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-mod=readonly", "-buildvcs=false", "-tags", "grpcnotrace",
		"-ldflags", "-s -w -X main.version="+r.version+" -X main.commit="+commit+" -X main.date="+r.at.Format(time.RFC3339), "-o", file, "./cmd/"+program)
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build for %s on %s: %w\n%s", t.os, t.arch, err, out)
	}
	return os.ReadFile(file)
}

// output runs a command and returns the text that it prints.
func output(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
