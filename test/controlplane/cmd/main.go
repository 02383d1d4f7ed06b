// Command dev-cluster starts a Kubernetes control plane with a fake kubelet for
// a person, and stays until Ctrl-C: see package controlplane and `make
// dev-cluster`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
)

func main() {
	var bin, mode, crds string
	var o controlplane.Options
	// controller-runtime registers flags of its own: these are apart.
	flags := flag.NewFlagSet("dev-cluster", flag.ExitOnError)
	flags.StringVar(&bin, "bin", "", "`folder` of the programs (bin/ of the repository)")
	flags.StringVar(&mode, "mode", "status-only", "`status-only`: pods have a status but no processes; process: containers are processes of this machine")
	flags.StringVar(&crds, "crds", "", "comma-separated `folders` of CustomResourceDefinitions")
	flags.IntVar(&o.Kubelet.Nodes, "nodes", 3, "`number` of nodes")
	flags.BoolVar(&o.Endpoints, "endpoints", false, "serve kubectl logs and exec of pods that are processes")
	flags.BoolVar(&o.Keep, "keep", false, "leave logs and pods behind")
	if err := flags.Parse(os.Args[1:]); err != nil {
		os.Exit(2)
	}
	if err := serve(o, bin, mode, crds); err != nil {
		fmt.Fprintln(os.Stderr, "dev-cluster:", err)
		os.Exit(1)
	}
}

func serve(o controlplane.Options, bin, mode, crds string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log.SetLogger(logr.Discard())
	o.Bin = bin
	if crds != "" {
		o.CRDs = strings.Split(crds, ",")
	}
	switch mode {
	case "status-only":
	case "process":
		images, err := controlplane.Images(bin)
		if err != nil {
			return err
		}
		o.Kubelet.Mode, o.Kubelet.Images, o.Kubelet.Users = kubelet.Process, images, controlplane.Users()
	default:
		return fmt.Errorf("-mode is status-only or process, not %q", mode)
	}
	began := time.Now()
	plane, err := controlplane.StartContext(ctx, o)
	if err != nil {
		return err
	}
	fmt.Printf(`A Kubernetes control plane runs, with %d nodes (%s); it took %s to start.

  export KUBECONFIG=%s
  %s get nodes

Its logs, pods and claims are in %s. Ctrl-C ends it.
`, o.Kubelet.Nodes, mode, time.Since(began).Round(100*time.Millisecond), plane.Kubeconfig(), relative(plane.Binaries.Kubectl), plane.Dir())
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			stop() // a second Ctrl-C ends it at once
			fmt.Println("stopping")
			return plane.Stop()
		case <-tick.C:
			if err := plane.Check(); err != nil {
				return errors.Join(err, plane.Stop())
			}
		}
	}
}

func relative(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	short, err := filepath.Rel(here, path)
	if err != nil || strings.HasPrefix(short, "..") {
		return path
	}
	return short
}
