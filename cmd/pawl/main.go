// Package main is pawl: runs, objects and machines on a command line, and the server that carries them.
//
//	pawl VERB ─▶ flags > PAWL_… > --config ─▶ backend ─┬─ a store: SQLite, PostgreSQL, memory ─▶ engine, in this process
//	                                                   ├─ --server URL ─▶ /v1
//	kubectl pawl VERB ─────────────────────────────────┴─ --context NAME ─▶ Kubernetes
//
// All backends return the JSON forms of view, so every verb prints the same
// for each of them. The exit codes are listed in docs/guide/operating.md.
package main

//go:generate go run . docs faults --out ../../docs/faults.md

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
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
	calls, completes := plugin(os.Args[0])
	if completes {
		args = append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr, plugin: calls || completes}
	return a.run(ctx, args)
}
