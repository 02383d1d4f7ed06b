package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

func (d *Demo) print(format string, args ...any) { fmt.Fprintf(d.options.Out, format+"\n", args...) }

// pawl runs a command and shows its output. Other exit codes than want are errors.
func (d *Demo) pawl(ctx context.Context, want int, args ...string) error {
	d.print("$ pawl %s", quoted(args))
	cmd := d.command(ctx, d.options.Pawl, args...)
	cmd.Stdout, cmd.Stderr = d.options.Out, d.options.Out
	return exitCode(cmd.Run(), want, "pawl "+quoted(args))
}

// etcdctl runs a command and shows its output.
func (d *Demo) etcdctl(ctx context.Context, args ...string) error {
	d.print("$ etcdctl %s", quoted(args))
	cmd := d.command(ctx, d.options.Etcdctl, args...)
	cmd.Stdout, cmd.Stderr = d.options.Out, d.options.Out
	return cmd.Run()
}

// watch shows `pawl get KIND --watch` while do runs.
func (d *Demo) watch(ctx context.Context, do func() error) error {
	d.print("$ pawl get %s --watch", kind)
	cmd := d.command(ctx, d.options.Pawl, "get", kind, "--watch")
	cmd.Stdout, cmd.Stderr = d.options.Out, d.options.Out
	if err := cmd.Start(); err != nil {
		return err
	}
	err := do()
	_ = cmd.Process.Kill() // it does not end by itself
	_ = cmd.Wait()
	return err
}

// read runs pawl without showing it.
func (d *Demo) read(ctx context.Context, into any, args ...string) error {
	var out, said bytes.Buffer
	cmd := d.command(ctx, d.options.Pawl, append(args, "-o", "json")...)
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("pawl %s: %w: %s", quoted(args), err, said.String())
	}
	return json.Unmarshal(out.Bytes(), into)
}

// follow reads the history of a run from its beginning until an event matches.
func (d *Demo) follow(ctx context.Context, run string, wanted func(Event) bool) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var said bytes.Buffer
	cmd := d.command(ctx, d.options.Pawl, "history", run, "--follow", "-o", "json")
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_ = cmd.Process.Kill() // stop it
		_ = cmd.Wait()
	}()
	for events := json.NewDecoder(out); ; {
		var e Event
		if err := events.Decode(&e); err != nil {
			return fmt.Errorf("pawl history %s: %w: %s", run, err, said.String())
		}
		if wanted(e) {
			return nil
		}
	}
}

func (d *Demo) command(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir = d.dir
	cmd.Env = append(d.environment(), "PAWL_SERVER=http://"+d.server)
	if d.token != "" {
		cmd.Env = append(cmd.Env, "PAWL_TOKEN="+d.token)
	}
	cmd.WaitDelay = time.Second
	return cmd
}

func exitCode(err error, want int, what string) error {
	var exit *exec.ExitError
	switch {
	case err == nil && want == 0:
		return nil
	case errors.As(err, &exit) && exit.ExitCode() == want:
		return nil
	case err == nil:
		return fmt.Errorf("%s: exit code 0, not %d", what, want)
	}
	return fmt.Errorf("%s: %w", what, err)
}

func quoted(args []string) string {
	words := make([]string, len(args))
	for i, arg := range args {
		if words[i] = arg; strings.ContainsAny(arg, " $'\"") {
			words[i] = "'" + arg + "'"
		}
	}
	return strings.Join(words, " ")
}

// until polls until holds returns true, and fails after the given time.
func (d *Demo) until(ctx context.Context, within time.Duration, what string, holds func(context.Context) (bool, error)) error {
	limited, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("it took longer than %s until %s", within, what))
	defer cancel()
	pause := time.NewTicker(50 * time.Millisecond)
	defer pause.Stop()
	for {
		ok, err := holds(limited)
		if limited.Err() != nil {
			return errors.Join(context.Cause(limited), err)
		}
		if ok || err != nil {
			return err
		}
		select {
		case <-pause.C:
		case <-limited.Done():
			return context.Cause(limited)
		}
	}
}
