package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	if err := os.Chdir(filepath.Join("..", "..")); err != nil {
		panic(err)
	}
	targets = targets[:1] // all have the same files
	os.Exit(m.Run())
}

// made makes the files of a release from this test's own program, in place of the worker's.
func made(t *testing.T) string {
	r := release{version: "1.2.3", dist: t.TempDir(), at: time.Unix(1_800_000_000, 0).UTC()}
	for _, to := range targets {
		require.NoError(t, r.addProgram(to, testProgram(t)))
	}
	require.NoError(t, r.addChart(filepath.Join("deploy", "chart")))
	require.NoError(t, r.sum())
	return r.dist
}

// Two builds give the same bytes. A flipped byte in any file is found, and so is a missing file.
func TestRelease_IsReproducibleAndVerified(t *testing.T) {
	one, two := made(t), made(t)
	require.NoError(t, verifyRelease(one, "1.2.3"))
	files, err := os.ReadDir(one)
	require.NoError(t, err)
	require.Len(t, files, 2*len(targets)+2)
	for _, f := range files {
		a, err := os.ReadFile(filepath.Join(one, f.Name()))
		require.NoError(t, err)
		b, err := os.ReadFile(filepath.Join(two, f.Name()))
		require.NoError(t, err)
		require.True(t, bytes.Equal(a, b), f.Name())

		flipped := bytes.Clone(a)
		flipped[len(flipped)/2] ^= 1
		require.NoError(t, os.WriteFile(filepath.Join(one, f.Name()), flipped, 0o600))
		require.Error(t, verifyRelease(one, "1.2.3"), f.Name())
		require.NoError(t, os.WriteFile(filepath.Join(one, f.Name()), a, 0o600))
	}
	require.NoError(t, os.Remove(filepath.Join(one, "ranker-worker-1.2.3-linux-amd64.tar.gz")))
	require.ErrorContains(t, verifyRelease(one, "1.2.3"), "ranker-worker-1.2.3-linux-amd64.tar.gz")
}

// The bill of materials names the modules that are linked, and a bill of another program is found although its checksum is listed.
func TestRelease_BillOfMaterials(t *testing.T) {
	dist := made(t)
	name := filepath.Join(dist, "ranker-worker-1.2.3-linux-amd64.cdx.json")
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	var b bill
	require.NoError(t, json.Unmarshal(text, &b))
	require.Equal(t, "std", b.Components[0].Name)
	require.Equal(t, []component{
		{Type: "library", Name: "std", Version: "go1.26.8", PURL: "pkg:golang/std@go1.26.8"},
		{Type: "library", Name: "a.example/b", Version: "v1.0.0", PURL: "pkg:golang/a.example/b@v1.0.0"},
		{Type: "library", Name: "a.example/fork", Version: "v2.0.0", PURL: "pkg:golang/a.example/fork@v2.0.0"},
	}, describe("1.2.3", time.Unix(0, 0), [32]byte{}, &debug.BuildInfo{GoVersion: "go1.26.8", Deps: []*debug.Module{
		{Path: "a.example/b", Version: "v1.0.0"}, {Path: "a.example/c", Replace: &debug.Module{Path: "a.example/fork", Version: "v2.0.0"}}}}).Components)
	other, err := billOf("1.2.3", time.Unix(0, 0), testProgram(t))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(name, bytes.Replace(other, []byte(`"content": "`), []byte(`"content": "00`), 1), 0o600))
	r := release{version: "1.2.3", dist: dist}
	files, err := os.ReadDir(dist)
	require.NoError(t, err)
	for _, f := range files {
		if f.Name() != sums {
			r.names = append(r.names, f.Name())
		}
	}
	require.NoError(t, r.sum())
	require.ErrorContains(t, verifyRelease(dist, "1.2.3"), "describes another program")
}

func testProgram(t *testing.T) []byte {
	self, err := os.Executable()
	require.NoError(t, err)
	binary, err := os.ReadFile(self)
	require.NoError(t, err)
	return binary
}

func TestRelease_NeedsAVersion(t *testing.T) {
	for _, version := range []string{"", "v1.2.3", "1.2", "1.2.3/../x"} {
		require.ErrorContains(t, run(t.Context(), version, t.TempDir(), true), "is no version")
	}
}

// The chart's package has the release's version, as helm requires.
func TestRelease_ChartHasTheVersion(t *testing.T) {
	chart, err := programIn(filepath.Join(made(t), "ranker-worker-chart-1.2.3.tgz"), "ranker-worker/Chart.yaml")
	require.NoError(t, err)
	require.Contains(t, string(chart), "\nversion: 1.2.3\n")
	require.Contains(t, string(chart), "\nappVersion: 1.2.3\n")
}
