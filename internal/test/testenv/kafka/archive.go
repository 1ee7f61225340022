package kafka

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv/proc"
)

// installed returns the paths of Java and of the directory with Kafka's jars, and sets the options' archive of classes.
func installed(ctx context.Context, opts *Options) (java, jars string, err error) {
	if java, err = Java(ctx); err != nil {
		return "", "", err
	}
	if jars, err = Fetch(ctx); err != nil {
		return "", "", err
	}
	// An archive is for jars of one path, and clones may share a cache by links.
	if jars, err = filepath.EvalSymlinks(jars); err != nil {
		return "", "", fmt.Errorf("find Kafka's jars: %w", err)
	}
	opts.classes, err = archive(ctx, java, jars)
	return java, jars, err
}

// archive returns the file with a broker's classes as this JVM keeps them in memory, which halves the CPU time of a start. The first call on a
// machine makes it, by starting and stopping a broker. It belongs to one JVM, since another would ignore it; jars is the directory of Fetch.
func archive(ctx context.Context, java, jars string) (string, error) {
	version, err := exec.CommandContext(ctx, java, "-Xinternalversion").Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", java, err)
	}
	sum := sha256.Sum256(version)
	file := filepath.Join(jars, "classes-"+hex.EncodeToString(sum[:8])+".jsa")
	if exists(file) {
		return file, nil
	}
	unlock, err := proc.LockFile(filepath.Join(jars, "lock"))
	switch {
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS):
		return "", nil // jars that cannot be written to go without
	case err != nil:
		return "", fmt.Errorf("lock Kafka's classes: %w", err)
	}
	defer unlock()
	if exists(file) { // by the process that held the lock
		return file, nil
	}
	made := file + ".made"
	b, err := newBroker(ctx, Options{JVM: []string{"-XX:ArchiveClassesAtExit=" + made, "-Xlog:cds=off", "-Xlog:cds+dynamic=off"}}, java, jars)
	if err != nil {
		return "", fmt.Errorf("start a Kafka whose classes are kept: %w", err)
	}
	defer func() { _ = b.Close() }()
	if err := b.Stop(); err != nil {
		return "", fmt.Errorf("keep Kafka's classes: %w", err)
	}
	if err := os.Rename(made, file); err != nil {
		return "", fmt.Errorf("keep Kafka's classes: %w", err)
	}
	return file, nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
