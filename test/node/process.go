package node

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
)

// variable marks the processes of the node; shims of containerd inherit it.
const variable = "PAWL_NODE"

// start starts a program that outlives this process, with a log of its own.
func (n *Node) start(name, program string, args ...string) error {
	if err := os.MkdirAll(path("log"), 0o755); err != nil {
		return err
	}
	log, err := os.Create(path("log", name))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = Dir, log, log
	cmd.Env = append(os.Environ(), variable+"="+Dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return Failed.Errorf("%s: %w", name, err)
	}
	go func() { _ = cmd.Wait() }() // its log has the exit reason
	return nil
}

// programs are the processes of the node outside of pods.
func programs() (all []kubelet.Proc) {
	for _, p := range kubelet.Procs() {
		if p.Environ(variable) == Dir {
			all = append(all, p)
		}
	}
	return all
}

// endPrograms ends kubelet before anything else, or it would start pods anew.
func (n *Node) endPrograms(context.Context) error { return kubelet.End(programs()) }

// endPods ends what is in the cgroups of pods: nothing of the node's environment is theirs.
func (n *Node) endPods(context.Context) error {
	var all []kubelet.Proc
	for _, dir := range podCgroups() {
		_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Base(path) != "cgroup.procs" {
				return nil //nolint:nilerr // a cgroup that has just ended
			}
			text, _ := os.ReadFile(path)
			for _, pid := range strings.Fields(string(text)) {
				if number, err := strconv.Atoi(pid); err == nil {
					if p, ok := kubelet.FindProcess(number); ok {
						all = append(all, p)
					}
				}
			}
			return nil
		})
	}
	return kubelet.End(all)
}

// podCgroups returns the cgroups of all pods, one in each hierarchy of version 1.
func podCgroups() []string {
	found, _ := filepath.Glob("/sys/fs/cgroup/*/kubepods")
	one, _ := filepath.Glob("/sys/fs/cgroup/kubepods")
	return append(found, one...)
}

func (n *Node) removeCgroups(ctx context.Context) error {
	return until(ctx, "cgroups of pods", func(context.Context) error {
		for _, top := range podCgroups() {
			var dirs []string
			_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					dirs = append(dirs, path)
				}
				return nil
			})
			for i := len(dirs) - 1; i >= 0; i-- {
				if err := syscall.Rmdir(dirs[i]); err != nil && i == 0 {
					return fmt.Errorf("%s: %w", dirs[i], err)
				}
			}
		}
		return nil
	})
}

// run runs a command to its end.
func run(ctx context.Context, input, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &out
	if err := cmd.Run(); err != nil {
		return "", Failed.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, out.String())
	}
	return out.String(), nil
}

// logEnd returns the last lines of a program's log.
func logEnd(name string) string {
	text, _ := os.ReadFile(path("log", name))
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-8):], "\n")
}
