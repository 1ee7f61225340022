package data

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const (
	wheel   = "recbole==1.2.1"
	members = "recbole/dataset_example/ml-100k/"
	// maxFile bounds the unpacked size; the largest file has 1,979,230 bytes.
	maxFile = 4 << 20

	fetchTimeout = 5 * time.Minute
)

// file is a file of MovieLens-100k with its SHA-256: the example's numbers are of these bytes.
type file struct{ name, checksum string }

var (
	ratingsFile = file{"ml-100k.inter", "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff"}
	filmsFile   = file{"ml-100k.item", "51d7cdf777ce5c0f5b32c1d947a4a81fe07d75e78abbe761e0cd4d0756064532"}
)

var (
	ErrChecksum = errors.New("checksum differs")
	// ErrMissing: the program in the message has to be installed first.
	ErrMissing = errors.New("not installed")
)

// Fetch returns the path of a file of MovieLens-100k in the directory cache. If it is missing, pip downloads a package with a copy
// (RecBole, from PyPI), without installing it.
func Fetch(ctx context.Context, cache string, f file) (string, error) {
	path := filepath.Join(cache, f.name)
	if content, err := os.ReadFile(path); err == nil && f.verify(content) == nil {
		return path, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", fmt.Errorf("make the cache for MovieLens-100k: %w", err)
	}
	tmp, err := os.MkdirTemp(cache, "fetching-")
	if err != nil {
		return "", fmt.Errorf("make a directory for the download of MovieLens-100k: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := download(ctx, tmp); err != nil {
		return "", fmt.Errorf("download MovieLens-100k: %w", err)
	}
	content, err := f.unpack(tmp)
	if err != nil {
		return "", fmt.Errorf("unpack MovieLens-100k: %w", err)
	}
	whole := filepath.Join(tmp, f.name)
	if err := os.WriteFile(whole, content, 0o644); err != nil {
		return "", fmt.Errorf("keep MovieLens-100k: %w", err)
	}
	if err := os.Rename(whole, path); err != nil {
		return "", fmt.Errorf("keep MovieLens-100k: %w", err)
	}
	return path, nil
}

// Load reads the ratings, after a download if necessary.
func Load(ctx context.Context, cache string) ([]Rating, error) {
	return load(ctx, cache, ratingsFile, ParseRatings)
}

// LoadFilms reads the films, after a download if necessary.
func LoadFilms(ctx context.Context, cache string) (map[string]Film, error) {
	return load(ctx, cache, filmsFile, ParseFilms)
}

func load[T any](ctx context.Context, cache string, f file, parse func(io.Reader) (T, error)) (all T, err error) {
	path, err := Fetch(ctx, cache, f)
	if err != nil {
		return all, err
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return all, fmt.Errorf("open MovieLens-100k: %w", err)
	}
	if all, err = parse(bytes.NewReader(content)); err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return all, err
}

func download(ctx context.Context, dir string) error {
	python, err := exec.LookPath("python3")
	if err != nil {
		return fmt.Errorf("python3, whose pip fetches the ratings, is %w: apt-get install python3-pip", ErrMissing)
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	if err := exec.CommandContext(ctx, python, "-m", "pip", "--version").Run(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("pip, which fetches the ratings, is %w: apt-get install python3-pip", ErrMissing)
	}
	cmd := exec.CommandContext(ctx, python, "-m", "pip", "download", "--quiet", "--disable-pip-version-check",
		"--no-input", "--no-deps", "--only-binary", ":all:", "--dest", dir, wheel)
	cmd.WaitDelay = 5 * time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("pip download %s: %w: %s", wheel, err, strings.TrimSpace(string(out[max(0, len(out)-500):])))
	}
	return nil
}

// unpack reads the file out of the only wheel in dir.
func (f file) unpack(dir string) ([]byte, error) {
	wheels, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(wheels) != 1 {
		return nil, fmt.Errorf("pip left %d wheels", len(wheels))
	}
	archive, err := zip.OpenReader(wheels[0])
	if err != nil {
		return nil, err
	}
	defer func() { _ = archive.Close() }()
	member, err := archive.Open(members + f.name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = member.Close() }()
	content, err := io.ReadAll(io.LimitReader(member, maxFile))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.name, err)
	}
	return content, f.verify(content)
}

func (f file) verify(content []byte) error {
	sum := sha256.Sum256(content)
	want, err := hex.DecodeString(f.checksum)
	if err != nil || !bytes.Equal(sum[:], want) {
		return fmt.Errorf("%s: %w: SHA-256 is %x", f.name, ErrChecksum, sum)
	}
	return nil
}
