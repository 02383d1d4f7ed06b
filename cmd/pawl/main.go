// Package main is pawl: runs, objects and machines on a command line, and the server that carries them.
//
//	pawl VERB ─▶ flags > PAWL_… > --config ─▶ backend ─┬─ a store: SQLite, PostgreSQL, memory ─▶ engine, in this process
//	                                                   ├─ --server URL, a context ─▶ /v1
//	kubectl pawl VERB ─────────────────────────────────┴─ --context NAME ─▶ Kubernetes
//
// All backends return the JSON forms of view, so every verb prints the same
// for each of them. The exit codes are listed in docs/guide/operating.md.
package main

//go:generate go run . docs faults --out ../../docs/faults.md
//go:generate go run . docs schemas --out ../../docs/schema

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/help"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/view"
)

// version is set by the linker.
var version = ""

func main() { os.Exit(realMain()) }

func realMain() int {
	// The second signal ends the process at once: NotifyContext stops hearing after the first.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	args := os.Args[1:]
	calls, completes := cli.Plugin(os.Args[0])
	if completes {
		args = append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	a := &cli.App{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Plugin: calls || completes, Version: version}
	return run(ctx, a, args)
}

// run executes one command line and returns its exit code.
func run(ctx context.Context, a *cli.App, args []string) int {
	root := root(a)
	root.SetArgs(cli.JoinWaits(args))
	root.SetIn(a.In)
	root.SetOut(a.Out)
	root.SetErr(a.Err)
	cmd, err := root.ExecuteContextC(ctx)
	var own cli.Ended
	switch {
	case err == nil:
		return view.ExitDone
	case errors.As(err, &own):
		return int(own)
	}
	if err = usage(cmd, err); fault.Of(err) == cli.Usage {
		a.UsageLine = help.Line(cmd)
	}
	return a.Fail(ctx, err)
}

// usage turns cobra's own errors into Usage faults.
func usage(cmd *cobra.Command, err error) error {
	if fault.Of(err) != fault.Unknown {
		return err
	}
	text := err.Error()
	if names, ok := strings.CutPrefix(text, "required flag(s) "); ok {
		return cli.Usage.Errorf("%s needs --%s", cmd.CommandPath(), strings.ReplaceAll(strings.ReplaceAll(strings.TrimSuffix(names, " not set"), `"`, ""), ", ", " and --"))
	}
	for _, start := range []string{"unknown command", "unknown flag", "unknown shorthand", "invalid argument", "flag needs an argument", "if any flags in the group", "at least one of the flags", "bad flag syntax"} {
		if strings.HasPrefix(text, start) {
			return cli.Usage.Errorf("%s: %s", cmd.CommandPath(), text)
		}
	}
	return err
}
