package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"time"
)

// bill is a software bill of materials in CycloneDX's JSON form, version 1.5: the program, and the modules that are linked into it.
type bill struct {
	Format     string      `json:"bomFormat"`
	Spec       string      `json:"specVersion"`
	Version    int         `json:"version"`
	Metadata   metadata    `json:"metadata"`
	Components []component `json:"components"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Version string `json:"version"`
	PURL    string `json:"purl"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

// billOf returns the bill of materials of a Go program, from the build information in it.
func billOf(version string, at time.Time, binary []byte) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return nil, fmt.Errorf("read the program's build information: %w", err)
	}
	text, err := json.MarshalIndent(describe(version, at, sha256.Sum256(binary), info), "", "  ")
	return append(text, '\n'), err
}

// describe lists the modules of a program.
func describe(version string, at time.Time, sum [sha256.Size]byte, info *debug.BuildInfo) bill {
	b := bill{Format: "CycloneDX", Spec: "1.5", Version: 1, Metadata: metadata{at.Format(time.RFC3339), component{"application", program, version,
		"pkg:golang/" + info.Main.Path + "@v" + version, []hash{{"SHA-256", hex.EncodeToString(sum[:])}}}}}
	b.Components = append(b.Components, componentOf("std", info.GoVersion))
	for _, m := range info.Deps {
		b.Components = append(b.Components, moduleOf(m))
	}
	return b
}

// moduleOf describes a module, or the one that replaces it.
func moduleOf(m *debug.Module) component {
	if m.Replace != nil {
		m = m.Replace
	}
	return componentOf(m.Path, m.Version)
}

func componentOf(name, version string) component {
	return component{Type: "library", Name: name, Version: version, PURL: "pkg:golang/" + name + "@" + version}
}

// checkBill checks that an archive's program is the one that its bill of materials describes.
func checkBill(dist, base string) error {
	text, err := os.ReadFile(filepath.Join(dist, base+".cdx.json"))
	if err != nil {
		return err
	}
	var b bill
	if err := json.Unmarshal(text, &b); err != nil {
		return fmt.Errorf("%s.cdx.json: %w", base, err)
	}
	binary, err := programIn(filepath.Join(dist, base+".tar.gz"), path.Join(base, program))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(binary)
	for _, h := range b.Metadata.Component.Hashes {
		if h.Content == hex.EncodeToString(sum[:]) {
			return nil
		}
	}
	return fmt.Errorf("%s.cdx.json describes another program than that of the archive", base)
}

// programIn returns a file of an archive.
func programIn(name, inside string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for r := tar.NewReader(z); ; {
		switch h, err := r.Next(); {
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%s: it has no %s", name, inside)
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		case h.Name == inside:
			return io.ReadAll(r)
		}
	}
}
