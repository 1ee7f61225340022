package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/testenv/kafka"
)

// oldCommit is the last one that writes layout 1 of states and of rankings.
const oldCommit = "5d5427a56503f23c6d85d3176745fd88e0b26683"

// oldSays is what a worker of oldCommit says of a state in the present layout.
const oldSays = "the stored state has layout 2, this worker reads 1"

// errLeftOut says that a fault cannot be injected on this machine at all, and why.
var errLeftOut = errors.New("left out")

// versionFaults replace workers by those of another version, one by one and under load.
func versionFaults() []Fault {
	roll := func(kind string, takes time.Duration, write func(scene *Scene, old string) isolatedRun) Fault {
		return Fault{Kind: kind, Uses: ownGroup, Weight: 1, Takes: takes, Inject: func(ctx context.Context, scene *Scene) error {
			old, err := oldBinary(ctx)
			if err != nil {
				return err
			}
			sc := write(scene, old)
			sc.Settings = Settings{Partitions: 4, Workers: 3, Learners: learners}
			return runIsolated(ctx, scene, sc)
		}}
	}
	return []Fault{
		roll("rolling upgrade", time.Minute, func(_ *Scene, old string) isolatedRun {
			return isolatedRun{begin: beginAs(old), do: upgrade}
		}),
		roll("rolling downgrade", 2*time.Minute, func(scene *Scene, old string) isolatedRun {
			first := old
			if scene.rng.IntN(2) == 0 {
				first = "" // the group is begun by the present version
			}
			scene.c.say("the group is begun by the version of before: %t", first != "")
			return isolatedRun{begin: beginAs(first), do: func(ctx context.Context, s *isolated) error { return s.downgrade(ctx, old) }}
		}),
	}
}

// beginAs starts all workers as another version; "": the present one.
func beginAs(binary string) func(context.Context, *isolated) error {
	return func(ctx context.Context, s *isolated) error {
		for _, w := range s.Slots {
			w.binary = binary
		}
		if binary != "" { // to it silence meant nothing, whatever the configuration says
			before, err := s.Config()
			if err != nil {
				return err
			}
			for i := range before.Learners {
				before.Learners[i].Silence = config.Waits
			}
			s.earlier = append(s.earlier, before)
		}
		return s.startAll(ctx)
	}
}

// roll replaces the workers by another version, one by one. Some are not asked first.
func (s *isolated) roll(ctx context.Context, binary string) error {
	for _, w := range s.Slots {
		end := (*Worker).Stop
		if s.rng.IntN(3) == 0 {
			end = (*Worker).Kill
		}
		if err := end(w); err != nil {
			return err
		}
		w.binary = binary
		if err := w.Start(); err != nil {
			return err
		}
		pause(ctx, time.Second+time.Duration(s.rng.Int64N(int64(4*time.Second))))
	}
	return ctx.Err()
}

// upgrade goes over to the present version, which then has to go on everywhere and write its own layout.
func upgrade(ctx context.Context, s *isolated) error {
	if err := s.roll(ctx, ""); err != nil {
		return err
	}
	return s.awaitPresent(ctx)
}

// awaitPresent waits until all workers work on all their partitions, and all states have the present layout.
func (s *isolated) awaitPresent(ctx context.Context) error {
	for _, w := range s.Slots {
		if err := must(ctx, w.AwaitReady(ctx)); err != nil {
			return err
		}
	}
	return must(ctx, until(ctx, 30*time.Second, "all states have the present layout", func() (bool, error) {
		metas, err := s.stored(ctx)
		for _, meta := range metas {
			if meta["layout"] != "2" {
				return false, err
			}
		}
		return err == nil, err
	}))
}

// downgrade goes over to the present version, and back to the old one, which has to refuse what it cannot read and to leave it
// as it is. Then the present one comes back.
func (s *isolated) downgrade(ctx context.Context, old string) error {
	if err := upgrade(ctx, s); err != nil {
		return err
	}
	if err := s.roll(ctx, old); err != nil {
		return err
	}
	for _, w := range s.Slots {
		if err := must(ctx, w.AwaitUnready(ctx, 30*time.Second, oldSays)); err != nil {
			return err
		}
	}
	before, err := s.contents(ctx)
	if err != nil {
		return err
	}
	pause(ctx, 3*time.Second)
	after, err := s.contents(ctx)
	if err != nil {
		return err
	}
	for p := range before {
		if !maps.Equal(before[p], after[p]) {
			return violated("a version that refuses the state of partition %d has changed it from %v to %v", p, before[p], after[p])
		}
	}
	return upgrade(ctx, s)
}

// contents is what is stored in the partitions' metas, without their owners.
func (s *isolated) contents(ctx context.Context) (all []map[string]string, err error) {
	metas, err := s.stored(ctx)
	for _, meta := range metas {
		kept := map[string]string{}
		for field, value := range meta {
			if field == "layout" || strings.HasPrefix(field, "offset.") || strings.HasPrefix(field, "account.") {
				kept[field] = value
			}
		}
		all = append(all, kept)
	}
	return all, err
}

// oldBinary is the worker of oldCommit, which is built when it is first asked for on a machine.
func oldBinary(ctx context.Context) (string, error) {
	cache, err := kafka.CacheDir()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(cache, "worker-"+oldCommit[:8])
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	known := exec.CommandContext(ctx, "git", "cat-file", "-e", oldCommit+"^{commit}")
	if out, err := known.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: the version of before, commit %s, is not in the history that is here: %w %s", errLeftOut, oldCommit[:8],
			err, strings.TrimSpace(string(out)))
	}
	root, err := exec.CommandContext(ctx, "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("make a directory for an old worker: %w", err)
	}
	dir, err := os.MkdirTemp(cache, "building-")
	if err != nil {
		return "", fmt.Errorf("make a directory for an old worker: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	archive := filepath.Join(dir, "source.tar")
	build := exec.CommandContext(ctx, "go", "-C", dir, "build", "-tags", "failpoints", "-o", "built", "./cmd/ranker-worker")
	build.Env = append(os.Environ(), "GOWORK=off") // the workspace above the cache does not have it
	for _, cmd := range []*exec.Cmd{
		exec.CommandContext(ctx, "git", "-C", strings.TrimSpace(string(root)), "archive", "--output", archive, oldCommit),
		exec.CommandContext(ctx, "tar", "-x", "-f", archive, "-C", dir),
		build,
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build the version of before: %s: %w: %s", cmd.Args[0], err, out)
		}
	}
	if err := os.Rename(filepath.Join(dir, "built"), binary); err != nil { // another may have done so
		return "", fmt.Errorf("put an old worker into the cache: %w", err)
	}
	return binary, nil
}
