// Command real-cluster starts and stops the node of this machine: see package node,
// `make real-cluster` and `make real-cluster-down`.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/node"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := do(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "real-cluster:", err)
		os.Exit(1)
	}
}

func do(ctx context.Context, args []string) error {
	root, err := controlplane.Root()
	if err != nil {
		return err
	}
	n := &node.Node{Bin: filepath.Join(root, "bin"), Log: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }}
	if len(args) != 1 {
		return errors.New("usage: real-cluster up|down|volumes")
	}
	switch args[0] {
	case "up":
		if err := n.Start(ctx); err != nil {
			return err
		}
		fmt.Printf("A Kubernetes node runs.\n\n  export KUBECONFIG=%s\n  bin/kubectl get nodes\n\nIts logs are in %s/log. `make real-cluster-down` removes it.\n", node.Kubeconfig(), node.Dir)
		return nil
	case "down":
		return n.Stop(ctx)
	case "volumes":
		return node.ServeVolumes(ctx, func(err error) { fmt.Fprintln(os.Stderr, err) })
	}
	return fmt.Errorf("usage: real-cluster up|down|volumes, not %q", args[0])
}
