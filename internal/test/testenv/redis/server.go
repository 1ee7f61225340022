package redis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv/proc"
)

// ErrMissing: redis-server has to be installed first.
var ErrMissing = errors.New("not installed")

// Options of a server. The zero value keeps nothing on disk.
type Options struct {
	// AppendOnly syncs every write to the append-only file before the answer, so that a killed server keeps its data.
	AppendOnly bool
	// Args are further arguments, such as "--maxmemory", "64mb".
	Args []string
	// TLS opens a second port beside the plain one; nil: none.
	TLS *TLS
}

// TLS names PEM files of a server with TLS. Clients need a certificate of the same CA.
type TLS struct{ CAFile, CertFile, KeyFile string }

const (
	startTimeout = 30 * time.Second
	stopGrace    = 10 * time.Second
	startTries   = 5
)

// Server is a redis-server, running or stopped. Its methods are not safe for concurrent use.
type Server struct {
	opts    Options
	path    string
	dir     string
	port    int
	tlsPort int // 0: none
	process *proc.Process
	running bool
}

// ProgramEnv names another program than redis-server, such as valkey-server.
const ProgramEnv = "RANKER_TEST_REDIS_SERVER"

// Program returns the path of the server's program. It fails with ErrMissing.
func Program() (string, error) {
	path, err := exec.LookPath(cmp.Or(os.Getenv(ProgramEnv), "redis-server"))
	if err != nil {
		return "", fmt.Errorf("redis-server is %w: apt-get install redis-server", ErrMissing)
	}
	return path, nil
}

func Start(ctx context.Context, opts Options) (*Server, error) {
	path, err := Program()
	if err != nil {
		return nil, err
	}
	var failed error
	for range startTries {
		s, err := newServer(ctx, opts, path)
		if err == nil {
			return s, nil
		}
		failed = err
		// Only a port that was taken meanwhile is worth another try.
		if !errors.Is(err, proc.ErrExited) || ctx.Err() != nil {
			break
		}
	}
	return nil, failed
}

func newServer(ctx context.Context, opts Options, path string) (*Server, error) {
	ports, err := proc.FreePorts(2)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "ranker-redis-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for redis-server: %w", err)
	}
	s := &Server{opts: opts, path: path, dir: dir, port: ports[0]}
	if opts.TLS != nil {
		s.tlsPort = ports[1]
	}
	if err := s.Start(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

// Addr is host:port, which a restart keeps.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// TLSAddr is the address that speaks TLS, host:port; "" without Options.TLS.
func (s *Server) TLSAddr() string {
	if s.tlsPort == 0 {
		return ""
	}
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.tlsPort))
}

func (s *Server) args() []string {
	args := []string{"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--protected-mode", "yes",
		"--dir", s.dir, "--daemonize", "no", "--save", "", "--databases", "16"}
	if s.opts.AppendOnly {
		args = append(args, "--appendonly", "yes", "--appendfsync", "always")
	}
	if t := s.opts.TLS; t != nil {
		args = append(args, "--tls-port", strconv.Itoa(s.tlsPort), "--tls-ca-cert-file", t.CAFile,
			"--tls-cert-file", t.CertFile, "--tls-key-file", t.KeyFile)
	}
	return append(args, s.opts.Args...)
}

// Start starts a stopped or killed server on the same address, and waits until it answers. It keeps its data only with AppendOnly.
func (s *Server) Start(ctx context.Context) error {
	if s.running {
		return errors.New("start redis-server: it is running")
	}
	// An ignored signal stays ignored through exec: without it, FillDisk would kill the server.
	process, err := proc.Start(proc.Config{
		Name: "redis-server", Path: "/bin/sh", Args: append([]string{"-c", `trap "" XFSZ; exec "$0" "$@"`, s.path}, s.args()...),
		Dir: s.dir, Log: "redis.log", RemoveDir: true,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	probe := func(ctx context.Context) error { return s.probe(ctx, process.PID()) }
	if err := process.AwaitReady(ctx, probe); err != nil {
		return errors.Join(err, process.Kill())
	}
	s.process, s.running = process, true
	return nil
}

// Dump writes a dump of the server's data, like a backup.
func (s *Server) Dump(ctx context.Context, path string) error {
	client := goredis.NewClient(&goredis.Options{Addr: s.Addr(), Password: s.password(), MaxRetries: -1, ReadTimeout: time.Minute})
	defer func() { _ = client.Close() }()
	if err := client.Save(ctx).Err(); err != nil {
		return fmt.Errorf("let redis-server write a dump: %w", err)
	}
	data, err := os.ReadFile(filepath.Join(s.dir, dumpFile))
	if err == nil {
		err = os.WriteFile(path, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("copy the dump of redis-server: %w", err)
	}
	return nil
}

const dumpFile = "dump.rdb"

// StartFrom starts a stopped or killed server with the data of a dump only.
func (s *Server) StartFrom(ctx context.Context, path string) error {
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.RemoveAll(filepath.Join(s.dir, "appendonlydir"))
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, dumpFile), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("put a dump in place: %w", err)
	}
	// With an append-only file switched on from the start, the dump would not be read.
	keep := s.opts.AppendOnly
	s.opts.AppendOnly = false
	err = s.Start(ctx)
	s.opts.AppendOnly = keep
	if err != nil || !keep {
		return err
	}
	client := goredis.NewClient(&goredis.Options{Addr: s.Addr(), Password: s.password(), MaxRetries: -1})
	defer func() { _ = client.Close() }()
	if err := client.ConfigSet(ctx, "appendonly", "yes").Err(); err != nil {
		return fmt.Errorf("switch the append-only file on again: %w", err)
	}
	// A server that is killed before the file is complete would begin empty.
	return s.process.AwaitReady(ctx, func(ctx context.Context) error {
		info, err := client.Info(ctx, "persistence").Result()
		if err == nil && !(strings.Contains(info, "aof_rewrite_in_progress:0") && strings.Contains(info, "aof_rewrite_scheduled:0")) {
			err = errors.New("the append-only file is being written")
		}
		return err
	})
}

// probe checks the process id, so that another process's server does not count; a server that is still loading answers with an error.
func (s *Server) probe(ctx context.Context, pid int) error {
	client := goredis.NewClient(&goredis.Options{
		Addr: s.Addr(), DialTimeout: time.Second, MaxRetries: -1, PoolSize: 1, ContextTimeoutEnabled: true,
		Password: s.password(),
	})
	defer func() { _ = client.Close() }()
	info, err := client.Info(ctx, "server").Result()
	if err != nil {
		return err
	}
	if !strings.Contains(info, fmt.Sprintf("process_id:%d\r\n", pid)) {
		return fmt.Errorf("the Redis on %s is not ours", s.Addr())
	}
	if err := client.Ping(ctx).Err(); err != nil {
		return err
	}
	return nil
}

// password returns that of --requirepass in Args, or "".
func (s *Server) password() string {
	for i, arg := range s.opts.Args {
		if arg == "--requirepass" && i+1 < len(s.opts.Args) {
			return s.opts.Args[i+1]
		}
	}
	return ""
}

func (s *Server) Stop() error {
	if !s.running {
		return nil
	}
	s.running = false
	return s.process.Stop(stopGrace)
}

func (s *Server) Kill() error {
	if !s.running {
		return nil
	}
	s.running = false
	return s.process.Kill()
}

func (s *Server) Restart(ctx context.Context) error {
	if err := s.Stop(); err != nil {
		return err
	}
	return s.Start(ctx)
}

// FillDisk makes every write to the server's files fail, like a full disk, or succeed again.
func (s *Server) FillDisk(full bool) error {
	if full {
		return s.process.LimitFiles(1)
	}
	return s.process.LimitFiles(-1)
}

// Pause freezes the server: connections stay open without answers.
func (s *Server) Pause() error { return s.process.Pause() }

func (s *Server) Resume() error { return s.process.Resume() }

// Running reports whether the server was started, and not ended since by one of these methods.
func (s *Server) Running() bool { return s.running }

func (s *Server) Tail() string { return s.process.Tail(20) }

// PID returns the process id of the present or last run.
func (s *Server) PID() int { return s.process.PID() }

func (s *Server) Close() error { return errors.Join(s.Kill(), os.RemoveAll(s.dir)) }
