// Package main is pawl: runs, objects and machines on a command line, and the server that carries them.
//
//	pawl VERB ─▶ flags > PAWL_… > --config ─▶ backend ─┬─ a store: SQLite, PostgreSQL, memory ─▶ engine, in this process
//	                                                   └─ --server URL ─▶ /v1
//
// Both backends give the JSON forms of view, so every verb prints the same
// whatever stands behind it. The exit codes are those of workflow.md 8.2.
package main

//go:generate go run . docs faults --out ../../docs/faults.md

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the linker.
var version = ""

func main() { os.Exit(realMain()) }

func realMain() int {
	// The second signal ends the process at once: NotifyContext stops hearing after the first.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	a := &app{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	return a.run(ctx, os.Args[1:])
}
