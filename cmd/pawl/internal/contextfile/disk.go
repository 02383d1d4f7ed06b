package contextfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/secretfile"
)

// Path is the file of the user: $PAWL_CONTEXTS, else ${XDG_CONFIG_HOME:-~/.config}/pawl/contexts.yaml. It is empty
// if the user has no home.
func Path() string {
	if path := os.Getenv("PAWL_CONTEXTS"); path != "" {
		return path
	}
	base := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(base) {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		base = filepath.Join(home, ".config")
	}
	return filepath.Join(base, "pawl", "contexts.yaml")
}

// Read reads the file. One that does not exist has no contexts; one that holds tokens and that others may read is
// refused: CONTEXTS_UNUSABLE.
func Read(path string) (*File, error) {
	f := &File{}
	if path == "" {
		return f, nil
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, Unusable.Errorf("%w", err)
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(f); err != nil && !errors.Is(err, io.EOF) {
		return nil, Unusable.Errorf("%s: %s", path, strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " "))
	}
	if err := f.check(); err != nil {
		return nil, Unusable.Errorf("%s: %s", path, fault.Message(err))
	}
	if slices.ContainsFunc(f.Contexts, func(c Context) bool { return c.Token != "" }) {
		if _, err := secretfile.Read(path); err != nil { // others may read it
			return nil, Unusable.Errorf("%w", err)
		}
	}
	return f, nil
}

// Update changes the file, which is locked meanwhile, and replaced as a whole: after a crash there is the old one or
// the new one. Only its owner may read it. An error of change leaves it as it is.
func Update(path string, change func(*File) error) error {
	if path == "" {
		return Unusable.Errorf("there is no home folder to keep contexts in")
	}
	if real, err := filepath.EvalSymlinks(path); err == nil { // a link stays one
		path = real
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return Unusable.Errorf("%w", err)
	}
	held, err := lock(path + ".lock")
	if err != nil {
		return Unusable.Errorf("%w", err)
	}
	defer held.Close()
	f, err := Read(path)
	if err != nil {
		return err
	}
	if err := change(f); err != nil {
		return err
	}
	data, err := yaml.Marshal(f)
	if err == nil {
		err = replace(path, data)
	}
	if err != nil {
		return Unusable.Errorf("%w", err)
	}
	return nil
}

// lock locks a file; closing it, or the end of the process, releases the lock.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
		}
	}
}

func replace(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".contexts-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Credential is the token of the context; empty: it has none.
func (c Context) Credential() (string, error) {
	if c.Token != "" || c.TokenFile == "" {
		return c.Token, nil
	}
	text, err := secretfile.Read(c.TokenFile)
	if err != nil {
		return "", Unusable.Errorf("token file of context %s: %w", c.Name, err)
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			return line, nil
		}
	}
	return "", Unusable.Errorf("token file of context %s: %s holds no token", c.Name, c.TokenFile)
}
