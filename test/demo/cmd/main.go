// Command demo runs the main use case for people: see package demo and `make demo`.
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

	"github.com/pawl-dev/pawl/test/demo"
)

func main() {
	var o demo.Options
	flag.StringVar(&o.Root, "root", ".", "`folder` of the repository")
	flag.StringVar(&o.Pawl, "pawl", "", "`path` of pawl")
	flag.StringVar(&o.Etcd, "etcd", "", "`path` of etcd")
	flag.StringVar(&o.Etcdctl, "etcdctl", "", "`path` of etcdctl")
	flag.BoolVar(&o.Keep, "keep", false, "leave the cluster running")
	flag.Parse()
	o.Out = os.Stdout
	if err := play(o); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func play(o demo.Options) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	began := time.Now()
	d, err := demo.New(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for _, act := range d.AllActs() {
		switch err := act.Play(ctx); {
		case ctx.Err() != nil:
			return errors.New("interrupted: what it has started is ended")
		case err != nil:
			d.Failed(ctx, err)
			return err
		}
	}
	fmt.Fprintf(o.Out, "\ndone in %s\n", time.Since(began).Round(time.Second))
	return nil
}
