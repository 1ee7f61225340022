package kafka

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ranker-worker/ranker-worker/internal/test/testenv/proc"
)

//go:embed pom.xml
var ownPom []byte

// VersionEnv names another version than pom.xml's.
const VersionEnv = "RANKER_TEST_KAFKA_VERSION"

var pom, Version = versioned(os.Getenv(VersionEnv))

// versioned returns the pom of a version, "" being its own.
func versioned(version string) ([]byte, string) {
	at := regexp.MustCompile(`<kafka\.version>([^<]+)</kafka\.version>`)
	if version == "" {
		return ownPom, string(at.FindSubmatch(ownPom)[1])
	}
	return at.ReplaceAll(ownPom, []byte("<kafka.version>"+version+"</kafka.version>")), version
}

// CacheEnv names a directory for Kafka's jars, instead of .cache at the top of the repository.
const CacheEnv = "RANKER_TEST_CACHE"

// ErrMissing: the program in the message has to be installed first.
var ErrMissing = errors.New("not installed")

// minJava is the oldest Java that runs a Kafka 4 broker.
const minJava = 17

// fetchTimeout bounds Maven: 92 jars, 55 MB.
const fetchTimeout = 8 * time.Minute

// Fetch returns the directory with Kafka's jars. The first call on a machine lets Maven fetch them; it waits while another process does so.
func Fetch(ctx context.Context) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	root := filepath.Join(cache, "kafka")
	dir := filepath.Join(root, Version)
	if complete(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", fmt.Errorf("make the cache for Apache Kafka: %w", err)
	}
	unlock, err := proc.LockFile(filepath.Join(root, "lock"))
	if err != nil {
		return "", fmt.Errorf("lock Kafka's cache: %w", err)
	}
	defer unlock()
	if complete(dir) { // by the process that held the lock
		return dir, nil
	}
	return dir, fetch(ctx, root, dir)
}

// stampFile holds the checksum of the pom.xml that filled the directory. It is written last.
const stampFile = "pom.sha256"

func stamp() string {
	sum := sha256.Sum256(pom)
	return hex.EncodeToString(sum[:]) + "\n"
}

func complete(dir string) bool {
	got, err := os.ReadFile(filepath.Join(dir, stampFile))
	return err == nil && string(got) == stamp()
}

// fetch lets Maven fill a directory beside dir, and renames it into place when it is complete.
func fetch(ctx context.Context, root, dir string) error {
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return fmt.Errorf("mvn, which fetches Apache Kafka, is %w: apt-get install maven", ErrMissing)
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	tmp, err := os.MkdirTemp(root, "fetching-")
	if err != nil {
		return fmt.Errorf("make a directory for Kafka's jars: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	if err := os.WriteFile(filepath.Join(tmp, "pom.xml"), pom, 0o644); err != nil {
		return fmt.Errorf("write the pom for Maven: %w", err)
	}
	cmd := exec.CommandContext(ctx, mvn, "-q", "-B", "-Dstyle.color=never", "-f", filepath.Join(tmp, "pom.xml"),
		"dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+tmp)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("fetch Apache Kafka %s from Maven Central: %w: %s", Version, err, firstErrors(out.String()))
	}
	if err := os.WriteFile(filepath.Join(tmp, stampFile), []byte(stamp()), 0o644); err != nil {
		return fmt.Errorf("mark Kafka's jars as complete: %w", err)
	}
	if err := os.RemoveAll(dir); err != nil { // of another pom.xml
		return fmt.Errorf("remove old jars of Kafka: %w", err)
	}
	if err := os.Chmod(tmp, 0o755); err != nil {
		return fmt.Errorf("open Kafka's jars to readers: %w", err)
	}
	if err := os.Rename(tmp, dir); err != nil {
		return fmt.Errorf("put Kafka's jars in place: %w", err)
	}
	return nil
}

// firstErrors returns the error lines of Maven's output, most important first.
func firstErrors(out string) string {
	var kept []string
	for line := range strings.Lines(out) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "[ERROR]") && len(line) > len("[ERROR]") {
			kept = append(kept, line)
		}
		if len(kept) == 3 {
			break
		}
	}
	if len(kept) == 0 {
		return strings.TrimSpace(out[max(0, len(out)-500):])
	}
	return strings.Join(kept, " ")
}

// CacheDir returns the directory of the jars: RANKER_TEST_CACHE, or .cache beside the nearest go.work, shared by both modules.
func CacheDir() (string, error) {
	if dir := os.Getenv(CacheEnv); dir != "" {
		return filepath.Abs(dir)
	}
	wd, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the cache: %w", err)
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil {
			return filepath.Join(dir, ".cache"), nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find the cache: no go.work above %s; set %s", wd, CacheEnv)
		}
	}
}

var javaVersion = regexp.MustCompile(`version "(\d+)`)

// Java returns the path of a Java that can run Kafka, from JAVA_HOME or else PATH.
func Java(ctx context.Context) (string, error) {
	java := "java"
	if home := os.Getenv("JAVA_HOME"); home != "" {
		java = filepath.Join(home, "bin", "java")
	}
	path, err := exec.LookPath(java)
	if err != nil {
		return "", fmt.Errorf("java %d or newer, which runs Apache Kafka, is %w: apt-get install openjdk-17-jre-headless",
			minJava, ErrMissing)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "-version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", path, err)
	}
	m := javaVersion.FindSubmatch(out)
	if m == nil {
		return "", fmt.Errorf("ask %s for its version: no version in %q", path, out)
	}
	if major, err := strconv.Atoi(string(m[1])); err != nil || major < minJava {
		return "", fmt.Errorf("java %d or newer, which runs Apache Kafka, is %w (%s is version %s): "+
			"apt-get install openjdk-17-jre-headless", minJava, ErrMissing, path, m[1])
	}
	return path, nil
}
