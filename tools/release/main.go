// Command release writes what people install into a folder.
//
//	release -version 0.1.0 -out dist -nfpm bin/nfpm
//
//	cmd/pawl ─▶ pawl per platform ─┬─▶ tar.gz ─▶ krew manifest
//	                               ├─▶ deb, rpm (nfpm, deploy/release/nfpm.yaml)
//	                               ├─▶ OCI image layout as a tar
//	                               └─▶ SPDX, of the modules that the program tells
//	deploy/chart ─▶ chart .tgz with the same version          all ─▶ SHA256SUMS
//
// It runs in the root of the repository. Times in archives are SOURCE_DATE_EPOCH, so the
// same commit and Go write the same bytes.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// release is one call.
type release struct {
	version, out, nfpm, certs string
	stage                     string // what is built before it is packed
	time                      time.Time
}

func main() {
	var r release
	var platforms string
	flag.StringVar(&r.version, "version", "", "semantic version, without v")
	flag.StringVar(&r.out, "out", "dist", "folder to write; it is emptied")
	flag.StringVar(&r.nfpm, "nfpm", "bin/nfpm", "program that writes deb and rpm")
	flag.StringVar(&r.certs, "certs", "/etc/ssl/certs/ca-certificates.crt", "certificates of public authorities for the image")
	flag.StringVar(&platforms, "platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "GOOS/GOARCH, by commas")
	flag.Parse()
	seconds, err := strconv.ParseInt(cmp.Or(os.Getenv("SOURCE_DATE_EPOCH"), "0"), 10, 64)
	if err == nil {
		r.time = time.Unix(seconds, 0).UTC()
		// Beside, not in the folder: what is staged is not released.
		if r.stage, err = os.MkdirTemp("", "pawl-release-"); err == nil {
			err = errors.Join(r.write(strings.Split(platforms, ",")), os.RemoveAll(r.stage))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// write fills the folder with all files of some platforms.
func (r release) write(platforms []string) error {
	if r.version == "" {
		return errors.New("-version is missing")
	}
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	if err := r.papers(); err != nil {
		return err
	}
	var images []platform
	var archives []archive
	for _, name := range platforms {
		goos, goarch, ok := strings.Cut(name, "/")
		if !ok {
			return fmt.Errorf("-platforms: %q is not GOOS/GOARCH", name)
		}
		program, err := r.build(goos, goarch)
		if err != nil {
			return err
		}
		base := fmt.Sprintf("pawl_%s_%s_%s", r.version, goos, goarch)
		if err := r.tarball(program, base); err != nil {
			return err
		}
		archives = append(archives, archive{goos, goarch, base + ".tar.gz"})
		if err := r.sbom(program, base); err != nil {
			return err
		}
		if goos != "linux" {
			continue
		}
		for _, format := range []string{"deb", "rpm"} {
			if err := r.pack(format, program, goarch); err != nil {
				return err
			}
		}
		p, err := r.layer(program, goarch)
		if err != nil {
			return err
		}
		images = append(images, p)
	}
	if len(images) > 0 {
		if err := r.image(images); err != nil {
			return err
		}
	}
	if err := r.chart("deploy/chart"); err != nil {
		return err
	}
	if err := r.krew(archives); err != nil {
		return err
	}
	return r.sums()
}

// build compiles pawl for a platform, once, and returns the file.
func (r release) build(goos, goarch string) (string, error) {
	program := filepath.Join(r.stage, goos+"-"+goarch, "pawl")
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	return program, r.run([]string{"CGO_ENABLED=0", "GOOS=" + goos, "GOARCH=" + goarch},
		"go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X main.version="+r.version, "-o", program, "./cmd/pawl")
}

// papers has the program of this machine write its man pages and completions.
func (r release) papers() error {
	program, err := r.build(runtime.GOOS, runtime.GOARCH)
	if err != nil {
		return err
	}
	man := filepath.Join(r.stage, "man")
	if err := r.run(nil, program, "docs", "man", "--out", man); err != nil {
		return err
	}
	// nfpm packs the tree with the times and modes of the disk.
	pages, err := os.ReadDir(man)
	if err != nil {
		return err
	}
	for _, page := range pages {
		name := filepath.Join(man, page.Name())
		if err := errors.Join(os.Chmod(name, 0o644), os.Chtimes(name, r.time, r.time)); err != nil {
			return err
		}
	}
	folder := filepath.Join(r.stage, "completions")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for shell, name := range map[string]string{"bash": "pawl.bash", "zsh": "_pawl", "fish": "pawl.fish"} {
		text, err := exec.Command(program, "completion", shell).Output() //nolint:gosec // It is what was built here.
		if err != nil {
			return fmt.Errorf("completion %s: %w", shell, err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pack writes a deb or an rpm.
func (r release) pack(format, program, goarch string) error {
	return r.run([]string{"VERSION=" + r.version, "ARCH=" + goarch, "STAGE=" + r.stage, "PROGRAM=" + program},
		r.nfpm, "package", "--config", "deploy/release/nfpm.yaml", "--packager", format, "--target", r.out+"/")
}

func (r release) run(env []string, name string, args ...string) error {
	cmd := exec.Command(name, args...) //nolint:gosec // The arguments are this program's own.
	cmd.Env = slices.Concat(os.Environ(), []string{"SOURCE_DATE_EPOCH=" + strconv.FormatInt(r.time.Unix(), 10)}, env)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
