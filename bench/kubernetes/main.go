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
//
// and Rollouts, on a control plane with controllers (package rollouts):
//
//	go -C bench run ./kubernetes --what rollout --rollouts 50 --pods 20 --batches 10     # release delays, beside others'
//	go -C bench run ./kubernetes --what rollout --rollouts 1 --pods 1000 --batches 100   # requests of a batch
//	go -C bench run ./kubernetes --what rollout --rollouts 1000 --pods 3 --moving 100    # against the controllers alone
//	go -C bench run ./kubernetes --what rollout --rollouts 50 --hanging 200              # beside hooks that hang
//	go -C bench run ./kubernetes --what rollouts-idle --rollouts 1000                    # at rest
//	go -C bench run ./kubernetes --what rollout-growth --rollouts 100                    # one set, again and again
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pawl-dev/pawl/bench/kubernetes/rollouts"
)

// figures are the printed figures.
type figures = map[string]float64

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
	rollouts   rollouts.Options
	serve      string
}

var measures = map[string]func(context.Context, options) (figures, error){"step": step, "ready": ready, "idle": idle, "cache": cache}

func init() {
	for name, measure := range rollouts.Measures {
		measures[name] = func(ctx context.Context, o options) (figures, error) {
			o.rollouts.Bin, o.rollouts.Rest, o.rollouts.Logf = o.bin, o.rest, o.logf
			return measure(ctx, o.rollouts)
		}
	}
}

func main() {
	var o options
	flags := flag.NewFlagSet("kubernetes", flag.ExitOnError) // controller-runtime registers its own flags in the default set
	flags.StringVar(&o.what, "what", "step", names())
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
	flags.IntVar(&o.rollouts.Rollouts, "rollouts", 50, "how many; of one, requests are counted")
	flags.IntVar(&o.rollouts.Pods, "pods", 0, "of each StatefulSet (default: 3; 20 beside hooks that hang; 1 at rest)")
	flags.IntVar(&o.rollouts.Batches, "batches", 0, "of each Rollout (default: one of each pod, at most 10)")
	flags.IntVar(&o.rollouts.Moving, "moving", 0, "move so many at once, and compare the time with that of the controllers alone")
	flags.IntVar(&o.rollouts.Hanging, "hanging", 0, "as many Rollouts beside them have hooks that answer after 10 s")
	flags.BoolVar(&o.rollouts.Alone, "alone", false, "measure Pawl only, not those beside it")
	flags.StringVar(&o.rollouts.Pawl, "pawl", "", "`file` of the pawl whose operator is measured (default: it is built)")
	flags.DurationVar(&o.rollouts.Start, "start", 0, "a new pod of a rollout takes about so long to become ready; 0: pods on paper are ready at once")
	flags.StringVar(&o.rollouts.Profile, "profile", "", "write a CPU profile of the operator to this `file`")
	flags.StringVar(&o.serve, "serve", "", "be an operator of Rollouts, with this `kubeconfig`")
	flags.BoolVar(&o.verbose, "v", false, "print more on stderr")
	_ = flags.Parse(os.Args[1:]) // it exits by itself
	log.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	slog.SetDefault(slog.New(slog.DiscardHandler))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if o.serve != "" {
		err = rollouts.Serve(ctx, o.serve, o.rollouts.Profile)
	} else {
		err = run(ctx, o)
	}
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
		return fmt.Errorf("--what %s is none of %s", o.what, names())
	}
	o.runs = cmp.Or(o.runs, map[string]int{"cache": 10_000}[o.what], 1000)
	o.clusters = cmp.Or(o.clusters, map[string]int{"idle": 1000}[o.what], 10)
	f, err := measure(ctx, o)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}

func names() string { return strings.Join(slices.Sorted(maps.Keys(measures)), ", ") }

func (o options) logf(format string, args ...any) {
	if o.verbose {
		fmt.Fprintf(os.Stderr, format+"\n", args...)
	}
}
