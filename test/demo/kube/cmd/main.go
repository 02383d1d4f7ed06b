// Command kube demonstrates Pawl on Kubernetes: see package kube and `make
// demo-kubernetes`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pawl-dev/pawl/test/demo/kube"
)

func main() {
	o := kube.Options{Out: os.Stdout}
	flags := flag.NewFlagSet("demo-kubernetes", flag.ExitOnError) // controller-runtime registers flags of its own
	flags.StringVar(&o.Root, "root", ".", "`folder` of the repository")
	flags.BoolVar(&o.Keep, "keep", false, "leave the clusters running until Ctrl-C")
	if err := flags.Parse(os.Args[1:]); err != nil {
		os.Exit(2)
	}
	if err := play(o); err != nil {
		fmt.Fprintln(os.Stderr, "demo-kubernetes:", err)
		os.Exit(1)
	}
}

func play(o kube.Options) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log.SetLogger(logr.Discard())
	began := time.Now()
	d, err := kube.New(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for _, act := range d.Acts() {
		switch err := d.Play(ctx, act); {
		case ctx.Err() != nil:
			return errors.New("interrupted: what it has started is ended")
		case err != nil:
			return err
		}
	}
	if o.Keep {
		return d.Wait(ctx)
	}
	fmt.Fprintf(o.Out, "\ndone in %s\n", time.Since(began).Round(time.Second))
	return nil
}
