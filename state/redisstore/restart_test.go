package redisstore

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv"
	"github.com/ranker-worker/ranker-worker/internal/test/testenv/proc"
	server "github.com/ranker-worker/ranker-worker/internal/test/testenv/redis"
	"github.com/ranker-worker/ranker-worker/state"
)

// restarting starts a server with n pages and n fields of a hash. Each of its processes scans them in another order.
func restarting(t *testing.T, n int) (*testenv.Owned, *Store) {
	srv := testenv.OwnRedis(t, server.Options{AppendOnly: true})
	s, err := New(Options{Addresses: []string{srv.Addr}, Group: "g"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	m, err := s.Acquire(t.Context(), 0, 1, false, &state.Meta{Inputs: make([]state.Position, 3)})
	require.NoError(t, err)
	var c state.Changes
	for i := range uint32(n) {
		c.Pages = append(c.Pages, state.Page{Number: 1 + i, Bucket: int64(i / 1500)})
		c.Entries = append(c.Entries, state.Entry{Place: state.Place{Page: 1 + i}, Value: []byte("v")})
		c.Writes = append(c.Writes, write("h", fmt.Sprint("field-", i), "v"))
	}
	require.NoError(t, s.Checkpoint(t.Context(), 0, &state.Checkpoint{Fence: m.Fence, ID: "c", Meta: m, Changes: c}))
	return srv, s
}

func TestKnownIDs_FromSeveralServers(t *testing.T) {
	const n = 5000
	srv, s := restarting(t, n)
	seen := map[uint32]int{}
	for cursor, first := uint64(0), true; cursor != 0 || first; first = false {
		pages, next, err := s.KnownIDs(t.Context(), 0, cursor)
		require.NoError(t, err)
		for i := range pages {
			seen[pages[i].Number]++
		}
		cursor = next
		srv.Restart()
	}
	require.Len(t, seen, n)
	for page, times := range seen {
		require.Equal(t, 1, times, page)
	}
}

// TestRestore_AsThePageSays: a server that keeps an append-only file has a backup's data, after the commands of docs/do.
func TestRestore_AsThePageSays(t *testing.T) {
	srv, s := restarting(t, 1)
	dir := s.client.ConfigGet(t.Context(), "dir").Val()["dir"]
	require.NoError(t, s.client.Save(t.Context()).Err())
	backups := t.TempDir()
	require.NoError(t, os.Rename(filepath.Join(dir, "dump.rdb"), filepath.Join(backups, "2026-11-23.rdb")))
	require.NoError(t, s.client.FlushAll(t.Context()).Err())
	srv.Stop()
	page, err := os.ReadFile("../../docs/do/back-up-and-restore.md")
	require.NoError(t, err)
	_, commands, _ := strings.Cut(string(page), "## Restore")
	commands = strings.Split(commands, "```")[1]
	ports, err := proc.FreePorts(1)
	require.NoError(t, err)
	port := strconv.Itoa(ports[0])
	commands = strings.NewReplacer("/var/lib/redis", dir, "/backups", backups, "7000", port).Replace(commands)
	t.Cleanup(func() { _ = exec.Command("redis-cli", "-p", port, "SHUTDOWN", "NOSAVE", "FORCE").Run() })
	out, err := exec.CommandContext(t.Context(), "timeout", "60", "sh", "-c", commands).CombinedOutput()
	require.NoError(t, err, "%s", out)
	for range 2 {
		srv.Start()
		require.EqualValues(t, 1, s.client.Exists(t.Context(), "{g:0}:meta").Val())
		srv.Stop()
	}
}

// scanned calls f once, after some steps of a scan.
type scanned struct {
	steps int
	f     func()
}

func (*scanned) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*scanned) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (h *scanned) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		if cmds[len(cmds)-1].Name() == "hscan" {
			if h.steps--; h.steps == 0 {
				h.f()
			}
		}
		return err
	}
}

func TestLoad_FromSeveralServers(t *testing.T) {
	const n = 20_000
	srv, s := restarting(t, n)
	s.client.AddHook(&scanned{steps: 4, f: srv.Restart})
	_, err := s.Load(t.Context(), 0, []string{"h"})
	require.ErrorContains(t, err, "of 20000 fields")
	fields, err := s.Load(t.Context(), 0, []string{"h"})
	require.NoError(t, err, "another try reads all")
	require.Len(t, fields, n)
}
