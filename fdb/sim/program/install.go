package program

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/pawl-dev/pawl/fdb"
)

// trailer is what an installed program has at its end: its version. So also a copy of the file alone, as a sidecar
// makes it, knows what it is.
const (
	trailer     = "\nfdbsim installed as "
	trailerSize = 64
)

// Install puts the programs of a version into a folder: one copy of this program, with the names of all, beside the
// files version and libfdb_c_<line>.so of an image. What is there already stays if it is the same.
func Install(self string, v fdb.Version, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("installing FoundationDB %s: %w", v, err)
	}
	first := filepath.Join(folder, Names[0])
	if !same(self, first, v) {
		if err := copyProgram(self, first, v); err != nil {
			return fmt.Errorf("installing FoundationDB %s: %w", v, err)
		}
	}
	for _, name := range Names[1:] {
		if err := linkTo(first, filepath.Join(folder, name)); err != nil {
			return fmt.Errorf("installing FoundationDB %s: %w", v, err)
		}
	}
	library := fmt.Sprintf("libfdb_c_%s.so", v.Short())
	return errors.Join(
		os.WriteFile(filepath.Join(folder, "version"), []byte(v.String()+"\n"), 0o644),
		os.WriteFile(filepath.Join(folder, library), []byte("fdbsim "+v.String()+"\n"), 0o644),
	)
}

// same tells whether a file is a copy of this program with that version.
func same(self, file string, v fdb.Version) bool {
	a, err1 := os.Stat(self)
	b, err2 := os.Stat(file)
	return err1 == nil && err2 == nil && b.Size() == a.Size()+trailerSize && versionOf(file) == v && !b.ModTime().Before(a.ModTime())
}

func copyProgram(from, to string, v fdb.Version) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.CreateTemp(filepath.Dir(to), ".install-")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	_, err = io.Copy(out, in)
	mark := trailer + v.String()
	mark += string(bytes.Repeat([]byte{'\n'}, trailerSize-len(mark)))
	_, err2 := out.WriteString(mark)
	if err := errors.Join(err, err2, out.Chmod(0o755), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), to)
}

// linkTo gives a file another name, in place of what had it.
func linkTo(from, to string) error {
	temporary := to + ".new"
	os.Remove(temporary)
	if err := os.Link(from, temporary); err != nil {
		return err
	}
	return os.Rename(temporary, to)
}

// versionOf returns the version that a file was installed as; the zero value if it was not.
func versionOf(file string) fdb.Version {
	f, err := os.Open(file)
	if err != nil {
		return fdb.Version{}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() < trailerSize {
		return fdb.Version{}
	}
	mark := make([]byte, trailerSize)
	if _, err := f.ReadAt(mark, info.Size()-trailerSize); err != nil {
		return fdb.Version{}
	}
	text, is := bytes.CutPrefix(mark, []byte(trailer))
	if !is {
		return fdb.Version{}
	}
	v, err := fdb.ParseVersion(string(bytes.TrimSpace(text)))
	if err != nil {
		return fdb.Version{}
	}
	return v
}

func (p *Process) flagSet(name string) *flag.FlagSet {
	flags := flag.NewFlagSet("fdbsim "+name, flag.ContinueOnError)
	flags.SetOutput(p.Stderr)
	return flags
}

// install puts the programs of a version into a folder.
func (p *Process) install(context.Context) int {
	flags := p.flagSet("install")
	version := flags.String("version", defaultVersion.String(), "of FoundationDB")
	folder := flags.String("folder", "", "where to put them")
	if flags.Parse(p.Args[1:]) != nil {
		return 2
	}
	v, err := fdb.ParseVersion(*version)
	if err == nil && *folder == "" {
		err = errors.New("--folder is missing: where to put the programs")
	}
	if err == nil {
		var self string
		if self, err = os.Executable(); err == nil {
			err = Install(self, v, *folder)
		}
	}
	if err != nil {
		p.errorf("fdbsim install: %v\n", err)
		return 1
	}
	return 0
}
