package kubelet

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Image maps a container image to this machine. The zero value runs the container's own
// command with the machine's programs.
type Image struct {
	// Command and Args are the defaults for containers without command and args, as an image's
	// entry point and command are: args alone keep Command.
	Command, Args []string
	// Files maps paths in the image to paths on this machine, such as "/pawl" to
	// "/opt/bin/pawl".
	Files map[string]string
	// Path are folders of programs, searched before the machine's.
	Path []string
	// Env are variables of the image; a container's own override them.
	Env map[string]string
	// User is the user id of containers whose pod sets none, if the test is root; 0 is the
	// test's own.
	User int64
}

// pull returns the image of a reference: its own, or that of its repository for every tag
// and digest.
func pull(images map[string]Image, reference string) (Image, bool) {
	if image, ok := images[reference]; ok {
		return image, true
	}
	repository, _, _ := strings.Cut(reference, "@")
	if n := strings.LastIndex(repository, ":"); n > strings.LastIndex(repository, "/") {
		repository = repository[:n]
	}
	image, ok := images[repository]
	return image, ok
}

// systemPath is the default PATH.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// argv returns the command of a container, before paths are rewritten.
func (i Image) argv(command, args []string) []string {
	switch {
	case len(command) > 0:
		return slices.Concat(command, args)
	case len(args) > 0:
		return slices.Concat(i.Command, args)
	}
	return slices.Concat(i.Command, i.Args)
}

func (i Image) path() string {
	return strings.Join(append(slices.Clone(i.Path), systemPath), ":")
}

// find looks up a program in the folders of a PATH, as a shell does.
func find(name, path string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, dir := range strings.Split(path, ":") {
		if dir == "" {
			continue
		}
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", &exec.Error{Name: name, Err: errors.New("not found in " + path)}
}
