package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// bundle is a tar in memory; all entries have one time and no owner.
type bundle struct {
	buf  bytes.Buffer
	tar  *tar.Writer
	time time.Time
}

func (r release) bundle() *bundle {
	b := &bundle{time: r.time}
	b.tar = tar.NewWriter(&b.buf)
	return b
}

// add appends an entry; a name that ends in / is a folder.
func (b *bundle) add(name string, mode int64, data []byte) error {
	h := &tar.Header{Name: name, Mode: mode, Size: int64(len(data)), ModTime: b.time, Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}
	if strings.HasSuffix(name, "/") {
		h.Typeflag = tar.TypeDir
	}
	if err := b.tar.WriteHeader(h); err != nil {
		return err
	}
	_, err := b.tar.Write(data)
	return err
}

// addFile appends a file of the disk.
func (b *bundle) addFile(name string, mode int64, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return b.add(name, mode, data)
}

// gzip ends the tar and returns it compressed.
func (b *bundle) gzip() ([]byte, error) {
	if err := b.tar.Close(); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(b.buf.Bytes()); err != nil {
		return nil, err
	}
	err := z.Close()
	return out.Bytes(), err
}

// tarball writes base.tar.gz of what is staged.
func (r release) tarball(program, base string) error {
	b := r.bundle()
	for _, f := range []struct {
		name, from string
		mode       int64
	}{{"pawl", program, 0o755}, {"LICENSE", "LICENSE", 0o644}, {"README.md", "README.md", 0o644}} {
		if err := b.addFile(base+"/"+f.name, f.mode, f.from); err != nil {
			return err
		}
	}
	for _, folder := range []string{"man", "completions"} {
		entries, err := os.ReadDir(filepath.Join(r.stage, folder))
		if err != nil {
			return err
		}
		for _, e := range entries {
			if err := b.addFile(path.Join(base, folder, e.Name()), 0o644, filepath.Join(r.stage, folder, e.Name())); err != nil {
				return err
			}
		}
	}
	return r.save(b, base+".tar.gz")
}

func (r release) save(b *bundle, name string) error {
	data, err := b.gzip()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, name), data, 0o644)
}

var chartVersions = regexp.MustCompile(`(?m)^(version|appVersion): .*$`)

// chart packs the chart; its version and the image's tag are the release's.
func (r release) chart(folder string) error {
	b := r.bundle()
	err := filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(folder, name)
		if err != nil {
			return err
		}
		if rel == "Chart.yaml" {
			data = chartVersions.ReplaceAll(data, []byte("${1}: "+r.version))
		}
		return b.add("pawl/"+filepath.ToSlash(rel), 0o644, data)
	})
	if err != nil {
		return err
	}
	return r.save(b, "pawl-chart-"+r.version+".tgz")
}

// sbom writes base.spdx.json: the modules that the program itself tells.
func (r release) sbom(program, base string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return err
	}
	type m = map[string]any
	pkg := func(id, name, version string) m {
		return m{"SPDXID": id, "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": false,
			"externalRefs": []m{{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": "pkg:golang/" + name + "@" + version}}}
	}
	packages := []m{pkg("SPDXRef-pawl", info.Main.Path, r.version), pkg("SPDXRef-go", "stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	relations := []m{
		{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-pawl"},
		{"spdxElementId": "SPDXRef-pawl", "relationshipType": "DEPENDS_ON", "relatedSpdxElement": "SPDXRef-go"},
	}
	for i, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		id := fmt.Sprintf("SPDXRef-module-%d", i)
		packages = append(packages, pkg(id, dep.Path, dep.Version))
		relations = append(relations, m{"spdxElementId": "SPDXRef-pawl", "relationshipType": "DEPENDS_ON", "relatedSpdxElement": id})
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(m{
		"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": base,
		"documentNamespace": "https://github.com/pawl-dev/pawl/spdx/" + base + "-" + hash(data),
		"creationInfo":      m{"created": r.time.Format(time.RFC3339), "creators": []string{"Tool: pawl-tools-release"}},
		"packages":          packages, "relationships": relations,
	}, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.out, base+".spdx.json"), append(text, '\n'), 0o644)
}

// archive is a tar.gz of a platform.
type archive struct{ goos, goarch, file string }

// krew writes the manifest by which krew installs kubectl-pawl.
func (r release) krew(archives []archive) error {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: pawl
spec:
  version: v%s
  homepage: https://github.com/pawl-dev/pawl
  shortDescription: Runs, clusters and rollouts of Pawl
  platforms:
`, r.version)
	for _, a := range archives {
		data, err := os.ReadFile(filepath.Join(r.out, a.file))
		if err != nil {
			return err
		}
		folder := strings.TrimSuffix(a.file, ".tar.gz")
		fmt.Fprintf(&b, `  - selector:
      matchLabels: {os: %s, arch: %s}
    uri: https://github.com/pawl-dev/pawl/releases/download/v%s/%s
    sha256: %s
    files:
    - {from: %s/pawl, to: kubectl-pawl}
    - {from: %s/LICENSE, to: .}
    bin: kubectl-pawl
`, a.goos, a.goarch, r.version, a.file, hash(data), folder, folder)
	}
	return os.WriteFile(filepath.Join(r.out, "krew-pawl.yaml"), []byte(b.String()), 0o644)
}

// sums writes SHA256SUMS of all files, in the form that sha256sum -c reads.
func (r release) sums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(r.out, e.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s  %s\n", hash(data), e.Name())
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(b.String()), 0o644)
}

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
