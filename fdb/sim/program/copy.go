package program

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"syscall"

	"github.com/pawl-dev/pawl/fdb"
)

// copyOf is one file to copy.
type copyOf struct {
	from, to string // to: below the output folder
	notEmpty bool
}

// copyPlan lists what to copy. Source: fdbkubernetesmonitor/copy.go at 7.1.67, 7.3.69 and 7.4.6, getCopyDetails.
func (p *Process) copyPlan(f launcherFlags, version string) ([]copyOf, error) {
	var plan []copyOf
	for _, name := range f.files {
		plan = append(plan, copyOf{from: path.Join(f.inputDir, name), to: path.Base(name)})
	}
	if len(f.binaries) > 0 {
		folder := f.binaryOutputDir
		switch {
		case folder != "":
		case f.mode == "sidecar":
			folder = path.Join("bin", version)
		default:
			v, err := fdb.ParseVersion(version)
			if err != nil {
				return nil, fmt.Errorf("could not parse FDB compact version from %s", version)
			}
			folder = v.Short()
		}
		from := "/usr/bin"
		if other, set := p.lookup("TEST_BINARY_DIRECTORY"); set {
			from = other
		}
		for _, name := range f.binaries {
			plan = append(plan, copyOf{from: path.Join(from, name), to: path.Join(folder, name)})
		}
	}
	from := "/usr/lib/fdb/multiversion"
	if other, set := p.lookup("TEST_LIBRARY_DIRECTORY"); set {
		from = other
	}
	for _, library := range f.libraries {
		name := "libfdb_c_" + library + ".so"
		plan = append(plan, copyOf{from: path.Join(from, name), to: name})
	}
	if f.primary != "" {
		plan = append(plan, copyOf{from: path.Join(from, "libfdb_c_"+f.primary+".so"), to: "libfdb_c.so"})
	}
	for _, name := range f.notEmpty {
		found := false
		for i := range plan {
			if plan[i].from == path.Join(f.inputDir, name) {
				plan[i].notEmpty, found = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("file %s is required, but is not in the --copy-file list", name)
		}
	}
	return plan, nil
}

// copyAll copies each file; what reads the target never sees half of one.
func (p *Process) copyAll(folder string, plan []copyOf, log *launcherLog) error {
	for _, c := range plan {
		from, to := p.path(c.from), p.path(filepath.Join(folder, c.to))
		if log != nil {
			log.info("Copying file", "inputPath", c.from, "outputPath", filepath.Join(folder, c.to))
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
			return err
		}
		if err := copyFile(from, to, c.notEmpty); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string, notEmpty bool) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	if notEmpty && info.Size() == 0 {
		return fmt.Errorf("file %s is empty", from)
	}
	out, err := os.CreateTemp(filepath.Dir(to), "")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Chmod(info.Mode().Perm()), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), to)
}

// idle waits to be ended.
func (p *Process) idle(ctx context.Context) int {
	signals, stop := p.signals(syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	select {
	case <-ctx.Done():
	case <-signals:
	}
	return exitSuccess
}
