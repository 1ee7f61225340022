package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/ranker-worker/ranker-worker/config"
	"github.com/ranker-worker/ranker-worker/internal/testenv/kafka"
	"github.com/ranker-worker/ranker-worker/stream/task"
)

// oldCommit is the last one that writes layout 1 of states and of rankings.
const oldCommit = "5d5427a56503f23c6d85d3176745fd88e0b26683"

// waitingCommit is the last one to which silence meant nothing and that dropped what was never paid; it writes layout 2 of states. Its
// rankings tell in which order records were taken in, so that the checker knows all that became of them.
const waitingCommit = "3dec9ff40b143e45d75c688de4a6d58774ea3367"

// presentLayout is that of states, as it is stored.
var presentLayout = strconv.Itoa(task.StateLayout)

// oldSays is what a worker of oldCommit says of a state in the present layout.
var oldSays = "the stored state has layout " + presentLayout + ", this worker reads 1"

// errLeftOut says that a fault cannot be injected on this machine at all, and why.
var errLeftOut = errors.New("left out")

// versionFaults replace workers by those of another version, one by one and under load.
func versionFaults() []Fault {
	roll := func(kind, commit string, takes time.Duration, write func(scene *Scene, old string) isolatedRun) Fault {
		return Fault{Kind: kind, Uses: ownGroup, Weight: 1, Takes: takes, Inject: func(ctx context.Context, scene *Scene) error {
			old, err := oldBinary(ctx, commit)
			if err != nil {
				return err
			}
			sc := write(scene, old)
			sc.Settings = Settings{Partitions: 4, Workers: 3, Learners: earlierLearners}
			return runIsolated(ctx, scene, sc)
		}}
	}
	return []Fault{
		roll("rolling upgrade", oldCommit, time.Minute, func(_ *Scene, old string) isolatedRun {
			return isolatedRun{begin: beginAs(old), do: upgrade}
		}),
		roll("rolling upgrade while payoffs are awaited", waitingCommit, time.Minute, func(_ *Scene, old string) isolatedRun {
			return isolatedRun{begin: beginAs(old), do: upgradeAwaiting}
		}),
		roll("rolling downgrade", oldCommit, 2*time.Minute, func(scene *Scene, old string) isolatedRun {
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
		edit := s.edit
		s.edit = func(text string) string { // which earlier versions do not know
			return strings.Replace(edit(text), fmt.Sprintf(", remember: %s", remember), "", 1)
		}
		for _, w := range s.Slots {
			w.binary = binary
			if err := w.configure(); err != nil {
				return err
			}
		}
		if binary != "" { // to it silence meant nothing, and what the configuration leaves open was dropped
			before, err := s.Config()
			if err != nil {
				return err
			}
			for i := range before.Learners {
				l := &before.Learners[i]
				l.Silence, l.OnExpiry.Default = config.Waits, nil
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

// upgradeAwaiting is upgrade where states know of selections in flight, and not when they began: those weigh nothing, and go as they
// came, until there are none but such as the present version has seen begin.
func upgradeAwaiting(ctx context.Context, s *isolated) error {
	if err := until(ctx, 30*time.Second, "something is in flight with the earlier version", func() (bool, error) {
		n, err := s.untimed(ctx)
		return n > 0, err
	}); err != nil {
		return err
	}
	if err := upgrade(ctx, s); err != nil {
		return err
	}
	return must(ctx, until(ctx, 90*time.Second, "of all that is in flight the beginning is known", func() (bool, error) {
		n, err := s.untimed(ctx)
		return err == nil && n == 0, err
	}))
}

// untimed is how many items of the learner whose payoffs are awaited shortest have more selections in flight than times at which these
// began.
func (s *isolated) untimed(ctx context.Context) (items int, err error) {
	err = s.redis.use(func(c goredis.UniversalClient) error {
		for p := range s.Partitions {
			flights, err := c.HGetAll(ctx, fmt.Sprintf("{%s:%d}:brief:flights", s.Name, p)).Result()
			if err != nil {
				return fmt.Errorf("read what is in flight: %w", err)
			}
			for _, value := range flights {
				n, err := untimedOf(value)
				if err != nil {
					return err
				}
				if n > 0 {
					items++
				}
			}
		}
		return nil
	})
	return items, err
}

// untimedOf is how many selections in flight have no time: "<number>", and behind it " <level>:<index>:<number>" of those that have.
func untimedOf(value string) (int, error) {
	count, spans, _ := strings.Cut(value, " ")
	n, err := strconv.Atoi(count)
	for _, span := range strings.Fields(spans) {
		began, wrong := strconv.Atoi(span[strings.LastIndexByte(span, ':')+1:])
		err = errors.Join(err, wrong)
		n -= began
	}
	if err != nil {
		return 0, violated("%q selections are in flight: %v", value, err)
	}
	return n, nil
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
			if meta["layout"] != presentLayout {
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

// oldBinary is the worker of an earlier commit, which is built when it is first asked for on a machine.
func oldBinary(ctx context.Context, commit string) (string, error) {
	cache, err := kafka.CacheDir()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(cache, "worker-"+commit[:8])
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	known := exec.CommandContext(ctx, "git", "cat-file", "-e", commit+"^{commit}")
	if out, err := known.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: the version of before, commit %s, is not in the history that is here: %w %s", errLeftOut, commit[:8],
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
		exec.CommandContext(ctx, "git", "-C", strings.TrimSpace(string(root)), "archive", "--output", archive, commit),
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
