package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// release collects the files of a version.
type release struct {
	version string
	dist    string
	at      time.Time // of everything in archives
	names   []string
}

// file is one of an archive.
type file struct {
	name       string
	executable bool
	content    []byte
}

// sums is the name of the file of checksums, in the form of sha256sum.
const sums = "SHA256SUMS"

// addProgram adds an archive with the program, its licence and its changes, and the program's bill of materials.
func (r *release) addProgram(t target, binary []byte) error {
	files := []file{{program, true, binary}}
	for _, name := range []string{"LICENSE", "CHANGELOG.md", "README.md"} {
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files = append(files, file{name, false, content})
	}
	base := fmt.Sprintf("%s-%s-%s-%s", program, r.version, t.os, t.arch)
	if err := r.write(base+".tar.gz", archive(base, r.at, files)); err != nil {
		return err
	}
	bill, err := billOf(r.version, r.at, binary)
	if err != nil {
		return err
	}
	return r.write(base+".cdx.json", bill)
}

var chartVersions = regexp.MustCompile(`(?m)^(version|appVersion): .*$`)

// addChart adds the package of the Helm chart, as helm install takes it.
func (r *release) addChart(dir string) error {
	var files []file
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(dir, name)
		if inside == "Chart.yaml" {
			content = chartVersions.ReplaceAll(content, []byte("$1: "+r.version))
		}
		files = append(files, file{filepath.ToSlash(inside), false, content})
		return err
	})
	if err != nil {
		return err
	}
	return r.write(program+"-chart-"+r.version+".tgz", archive(program, r.at, files))
}

// archive returns a tar of files below one directory, compressed. It has no names of users, and one time.
func archive(dir string, at time.Time, files []file) []byte {
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	must(err)
	w := tar.NewWriter(z)
	for _, f := range files {
		mode := int64(0o644)
		if f.executable {
			mode = 0o755
		}
		must(w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path.Join(dir, f.name), Mode: mode, Size: int64(len(f.content)),
			ModTime: at, Format: tar.FormatPAX}))
		_, err := w.Write(f.content)
		must(err)
	}
	must(w.Close())
	must(z.Close())
	return out.Bytes()
}

// must panics: a write to memory does not fail.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (r *release) write(name string, content []byte) error {
	r.names = append(r.names, name)
	return os.WriteFile(filepath.Join(r.dist, name), content, 0o644)
}

// sum writes the checksums of all files.
func (r *release) sum() error {
	var out bytes.Buffer
	slices.Sort(r.names)
	for _, name := range r.names {
		sum, err := sumOf(filepath.Join(r.dist, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s  %s\n", sum, name)
		fmt.Println(name)
	}
	return os.WriteFile(filepath.Join(r.dist, sums), out.Bytes(), 0o644)
}

func sumOf(name string) (string, error) {
	content, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), nil
}

// verifyRelease checks that all files of a version are there with their checksums, and that each program is the one of its bill of
// materials. It returns all faults.
func verifyRelease(dist, version string) error {
	list, err := os.ReadFile(filepath.Join(dist, sums))
	if err != nil {
		return err
	}
	var faults []error
	listed := map[string]bool{}
	for lines := bufio.NewScanner(bytes.NewReader(list)); lines.Scan(); {
		sum, name, ok := strings.Cut(lines.Text(), "  ")
		if !ok || name != filepath.Base(name) {
			faults = append(faults, fmt.Errorf("%s: %q is no line of a checksum and a name", sums, lines.Text()))
			continue
		}
		listed[name] = true
		switch got, err := sumOf(filepath.Join(dist, name)); {
		case err != nil:
			faults = append(faults, err)
		case got != sum:
			faults = append(faults, fmt.Errorf("%s: its checksum is %s, and %s has %s", name, got, sums, sum))
		}
	}
	for _, t := range targets {
		base := fmt.Sprintf("%s-%s-%s-%s", program, version, t.os, t.arch)
		for _, name := range []string{base + ".tar.gz", base + ".cdx.json"} {
			if !listed[name] {
				faults = append(faults, fmt.Errorf("%s: it is missing in %s", name, sums))
			}
		}
		if len(faults) > 0 {
			continue
		}
		if err := checkBill(dist, base); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}
