// Package stage is what the demos on a control plane share: commands that are shown and run, acts, and
// Pawl from deploy/install.yaml.
package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/test/controlplane"
)

const within = 4 * time.Minute // for operations that take seconds, on a busy machine

// Options of a demo. Root and Out are required.
type Options struct {
	Root string // of the repository; its bin/ holds the programs
	Out  io.Writer
	Keep bool // keep what was made after the last act, and the plane in Wait
}

// Stage is a control plane with a terminal.
type Stage struct {
	Options
	Plane *controlplane.Plane
	// Path are folders of programs, searched before those of this machine.
	Path []string
}

// Act is one part of a demo. The error of its function describes an unexpected result.
type Act struct {
	Name, Title string
	Do          func(context.Context) error
}

// New starts the control plane. It needs bin/pawl.
func New(ctx context.Context, o Options, plane controlplane.Options) (*Stage, error) {
	root, err := filepath.Abs(o.Root)
	if err != nil {
		return nil, err
	}
	o.Root = root
	plane.Bin = filepath.Join(root, "bin")
	if _, err := os.Stat(filepath.Join(plane.Bin, "pawl")); err != nil {
		return nil, fmt.Errorf("%w; run `make build`", err)
	}
	s := &Stage{Options: o, Path: []string{plane.Bin}}
	began := time.Now()
	if s.Plane, err = controlplane.StartContext(ctx, plane); err != nil {
		return nil, err
	}
	of := " of three nodes"
	if plane.Kubelet.Nodes < 0 { // the demo starts them
		of = ""
	}
	s.Print("A Kubernetes control plane%s runs (%s).", of, time.Since(began).Round(100*time.Millisecond))
	s.Print("$ export KUBECONFIG=%s", s.Plane.Kubeconfig())
	return s, nil
}

// Play runs an act.
func (s *Stage) Play(ctx context.Context, a Act) error {
	s.Print("\n── %s", a.Title)
	if err := a.Do(ctx); err != nil {
		return fmt.Errorf("%s: %w", a.Title, err)
	}
	return nil
}

// Wait keeps the plane until ctx ends.
func (s *Stage) Wait(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := s.Plane.Check(); err != nil {
				return err
			}
		}
	}
}

// Close stops all processes.
func (s *Stage) Close() error { return s.Plane.Stop() }

// Print shows a line.
func (s *Stage) Print(format string, args ...any) { fmt.Fprintf(s.Out, format+"\n", args...) }

// Steps runs functions until one fails.
func Steps(of ...func() error) error {
	for _, step := range of {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// Kubectl runs kubectl and shows its output.
func (s *Stage) Kubectl(ctx context.Context, args ...string) error {
	return s.Show(ctx, "kubectl", args...)
}

// Show runs a command and shows it with its output.
func (s *Stage) Show(ctx context.Context, name string, args ...string) error {
	s.Print("$ %s %s", name, Quoted(args))
	cmd := s.Command(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = s.Out, s.Out
	return named(cmd.Run(), name, args)
}

// Quietly runs kubectl without showing it.
func (s *Stage) Quietly(ctx context.Context, args ...string) (string, error) {
	var out, said bytes.Buffer
	cmd := s.Command(ctx, "kubectl", args...)
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, said.String())
	}
	return strings.TrimSpace(out.String()), named(err, "kubectl", args)
}

func named(err error, name string, args []string) error {
	if err != nil {
		return fmt.Errorf("%s %s: %w", name, Quoted(args), err)
	}
	return nil
}

// Command returns a command of this repository or of Path. kubectl finds its plugin
// kubectl-pawl in the PATH.
func (s *Stage) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	path := strings.Join(append(s.Path[:len(s.Path):len(s.Path)], os.Getenv("PATH")), string(filepath.ListSeparator))
	program := name
	switch name {
	case "kubectl":
		program = s.Plane.Binaries.Kubectl
	case "pawl":
		program = filepath.Join(s.Root, "bin", "pawl")
	}
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = s.Root
	cmd.Env = []string{"PATH=" + path, "HOME=" + s.Plane.Dir(), "KUBECONFIG=" + s.Plane.Kubeconfig(), "NO_COLOR=1", "PAGER=cat"}
	cmd.WaitDelay = time.Second
	return cmd
}

// Quoted is what a person types for arguments.
func Quoted(args []string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		if words[i] = arg; strings.ContainsAny(arg, " $'\"{}*") {
			words[i] = "'" + arg + "'"
		}
	}
	return strings.Join(words, " ")
}

// Until polls until holds returns no error, and fails after the given time.
func (s *Stage) Until(ctx context.Context, what string, holds func(context.Context) error) error {
	limited, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("it took longer than %s until %s", within, what))
	defer cancel()
	pause := time.NewTicker(100 * time.Millisecond)
	defer pause.Stop()
	for {
		err := holds(limited)
		if err == nil {
			return nil
		}
		select {
		case <-pause.C:
		case <-limited.Done():
			return errors.Join(context.Cause(limited), err)
		}
	}
}
