package kube

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const within = 4 * time.Minute // for operations that take seconds, on a busy machine

func (d *Demo) print(format string, args ...any) { fmt.Fprintf(d.o.Out, format+"\n", args...) }

// steps runs functions until one fails.
func steps(of ...func() error) error {
	for _, step := range of {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// kubectl runs a command and shows its output.
func (d *Demo) kubectl(ctx context.Context, args ...string) error {
	d.print("$ kubectl %s", quoted(args))
	cmd := d.command(ctx, "kubectl", args...)
	cmd.Stdout, cmd.Stderr = d.o.Out, d.o.Out
	return named(cmd.Run(), "kubectl", args)
}

// apply applies a manifest with the changes that this kubelet needs.
func (d *Demo) apply(ctx context.Context, file string, change func(string) (string, error)) error {
	text, err := os.ReadFile(filepath.Join(d.o.Root, file))
	if err != nil {
		return err
	}
	manifest, err := change(string(text))
	if err != nil {
		return err
	}
	args := []string{"apply", "--server-side", "-f", file}
	d.print("$ kubectl %s", quoted(args))
	args[len(args)-1] = "-"
	cmd := d.command(ctx, "kubectl", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(manifest), d.o.Out, d.o.Out
	return named(cmd.Run(), "kubectl", args)
}

// runQuietly runs a command without showing it.
func (d *Demo) runQuietly(ctx context.Context, args ...string) (string, error) {
	var out, said bytes.Buffer
	cmd := d.command(ctx, "kubectl", args...)
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, said.String())
	}
	return strings.TrimSpace(out.String()), named(err, "kubectl", args)
}

// psql queries an instance and shows the result.
func (d *Demo) psql(ctx context.Context, i instance, sql string) error {
	d.print("$ psql -h %s -U postgres -c %q   # instance %s", i.Address, sql, i.id)
	cmd := d.command(ctx, "psql", "-h", i.Address, "-p", fmt.Sprint(i.Port), "-U", "postgres", "-X", "-c", sql)
	cmd.Env = append(cmd.Env, "PGPASSWORD="+i.password)
	cmd.Stdout, cmd.Stderr = d.o.Out, d.o.Out
	return named(cmd.Run(), "psql", nil)
}

func named(err error, name string, args []string) error {
	if err != nil {
		return fmt.Errorf("%s %s: %w", name, quoted(args), err)
	}
	return nil
}

// command returns a command of this repository or of PostgreSQL. kubectl finds its plugin
// kubectl-pawl in the PATH.
func (d *Demo) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	path := []string{filepath.Join(d.o.Root, "bin"), "/usr/lib/postgresql/15/bin", os.Getenv("PATH")}
	if name == "kubectl" {
		name = d.plane.Binaries.Kubectl
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = d.o.Root
	cmd.Env = []string{"PATH=" + strings.Join(path, string(filepath.ListSeparator)), "HOME=" + d.plane.Dir(), "KUBECONFIG=" + d.plane.Kubeconfig(), "NO_COLOR=1", "PAGER=cat"}
	cmd.WaitDelay = time.Second
	return cmd
}

func quoted(args []string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		if words[i] = arg; strings.ContainsAny(arg, " $'\"{}*") {
			words[i] = "'" + arg + "'"
		}
	}
	return strings.Join(words, " ")
}

// until polls until holds returns no error, and fails after the given time.
func (d *Demo) until(ctx context.Context, what string, holds func(context.Context) error) error {
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
