// Command demo plays the main job for people: see package demo and `make demo`.
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := play(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func play(ctx context.Context, o demo.Options) (err error) {
	began := time.Now()
	d, err := demo.New(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	for _, act := range d.Acts() {
		if err := act.Play(ctx); err != nil {
			return err
		}
	}
	fmt.Fprintf(o.Out, "\ndone in %s\n", time.Since(began).Round(time.Second))
	return nil
}
