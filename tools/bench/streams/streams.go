// Package streams is the worker's task as a Kafka Streams job, for comparison in the benchmarks: Ranker.java, from the jars that
// scripts/tools fetches from Maven Central as pom.xml names them.
package streams

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv/kafka"
	"github.com/ranker-worker/ranker-worker/stream/event"
)

//go:embed Ranker.java
var source []byte

type Config struct {
	Brokers     string               // host:port
	Application string               // its group, and the prefix of its changelogs
	Topics      [event.Topics]string // of the same number of partitions
	RocksDB     bool                 // stores in RocksDB, not in memory
	Threads     int                  // share the partitions
	Dir         string               // empty, for its program and stores
}

const stopGrace = 30 * time.Second

// Command returns a job to be started. It ends, with status 0, by SIGTERM, or when ctx does.
func Command(ctx context.Context, c Config) (*exec.Cmd, error) {
	java, err := kafka.Java(ctx)
	if err != nil {
		return nil, err
	}
	jars, err := jars()
	if err != nil {
		return nil, err
	}
	program := filepath.Join(c.Dir, "Ranker.java")
	if err := os.WriteFile(program, source, 0o600); err != nil {
		return nil, fmt.Errorf("write the Kafka Streams job: %w", err)
	}
	store := "memory"
	if c.RocksDB {
		store = "rocksdb"
	}
	// RocksDB's library is unpacked into the temporary directory.
	cmd := exec.CommandContext(ctx, java, "-Xmx3g", "-Djava.io.tmpdir="+c.Dir, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"-cp", filepath.Join(jars, "*"), program, c.Brokers, c.Application, c.Topics[event.Impressions], c.Topics[event.Selections],
		c.Topics[event.Payoffs], c.Topics[event.Rankings], store, filepath.Join(c.Dir, "state"), strconv.Itoa(c.Threads))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = stopGrace
	return cmd, nil
}

func jars() (string, error) {
	cache, err := kafka.CacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "streams")
	if _, err := os.Stat(filepath.Join(dir, "wanted")); errors.Is(err, os.ErrNotExist) { // the last file of scripts/tools
		return "", fmt.Errorf("the jars of Kafka Streams are %w: make tools", kafka.ErrMissing)
	} else if err != nil {
		return "", fmt.Errorf("find Kafka Streams: %w", err)
	}
	return dir, nil
}
