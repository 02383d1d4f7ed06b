// Command kubernetes measures Pawl on a real etcd and API server, and prints the
// figures as one JSON object: the cost of a step in the Kubernetes stores, the start
// time of simulated shared-storage clusters, the requests of a thousand idle ones,
// and the memory of a cache of runs.
//
//	make controlplane                                        # once: builds the programs into bin/
//	go -C bench run ./kubernetes --what step --kind Run      # 1,000 runs of one subject, one after the other
//	go -C bench run ./kubernetes --what step --kind ConfigMap
//	go -C bench run ./kubernetes --what ready --clusters 100 # kubectl apply until all are Running
//	go -C bench run ./kubernetes --what idle --clusters 1000 # API calls at rest
//	go -C bench run ./kubernetes --what cache --runs 10000   # memory of runs in a cache
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// figures are the printed figures.
type figures map[string]float64

type options struct {
	what       string
	kind       string
	bin        string
	kubeconfig string
	dir        string
	runs       int
	steps      int
	subjects   int
	clusters   int
	owned      bool
	rest       time.Duration
	cache      string
	verbose    bool
}

var measures = map[string]func(context.Context, options) (figures, error){"step": step, "ready": ready, "idle": idle, "cache": cache}

func main() {
	var o options
	flags := flag.NewFlagSet("kubernetes", flag.ExitOnError) // controller-runtime registers its own flags in the default set
	flags.StringVar(&o.what, "what", "step", "step, ready, idle or cache")
	flags.StringVar(&o.kind, "kind", "Run", "what keeps runs: Run or ConfigMap")
	flags.StringVar(&o.bin, "bin", "../bin", "`folder` of etcd, kube-apiserver and kubectl")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "measure steps on this cluster (its CRDs are there) instead of starting one")
	flags.StringVar(&o.dir, "dir", "", "`folder` on the disk to measure (default that of temporary files)")
	flags.IntVar(&o.runs, "runs", 0, "how many (default: 1,000; 10,000 for the cache)")
	flags.IntVar(&o.steps, "steps", 10, "no-op steps of each")
	flags.IntVar(&o.subjects, "subjects", 1, "subjects; each has one run after the other, all side by side")
	flags.IntVar(&o.clusters, "clusters", 0, "how many (default: 1,000 at rest, 10 to come up)")
	flags.BoolVar(&o.owned, "owned", true, "runs belong to their subject, as those of a cluster do")
	flags.DurationVar(&o.rest, "for", 2*time.Minute, "how long calls at rest are counted")
	flags.StringVar(&o.cache, "open", "", "be the process that opens a cache: store, controller or plain")
	flags.BoolVar(&o.verbose, "v", false, "print more on stderr")
	_ = flags.Parse(os.Args[1:]) // it exits by itself
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	slog.SetDefault(slog.New(slog.DiscardHandler))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubernetes:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	measure := measures[o.what]
	switch {
	case o.cache != "":
		measure = measureCache
	case measure == nil:
		return fmt.Errorf("--what %s is none of step, ready, idle, cache", o.what)
	}
	o.runs = cmp.Or(o.runs, map[string]int{"cache": 10_000}[o.what], 1000)
	o.clusters = cmp.Or(o.clusters, map[string]int{"idle": 1000}[o.what], 10)
	f, err := measure(ctx, o)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}

func (o options) logf(format string, args ...any) {
	if o.verbose {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}
}
