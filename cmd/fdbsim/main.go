// Package main is fdbsim: the programs of FoundationDB, played for simulated databases, and the world that holds these.
//
//	fdbsim install --version 7.3.69 --folder DIR    DIR/fdbserver, DIR/fdbcli, … of that version
//	fdbsim world --socket PATH                      their databases, found by FDBSIM_WORLD=PATH
//
// It is one file: the name by which it is called says which program it is. Package fdb/sim/program has the rest.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/pawl-dev/pawl/fdb/sim/program"
)

func main() {
	ctx := context.Background()
	// The signals of the world; a server ends by them as any program does, and the monitors hear them themselves.
	if len(os.Args) > 1 && os.Args[1] == "world" {
		ctx, _ = signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	}
	exit := program.Main(ctx, program.This())
	if exit < 0 { // as if it were killed
		signal.Reset()
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	os.Exit(exit)
}
