// Command kubernetes measures the Kubernetes stores (workflow.md, section 9, duty
// 8) on a real etcd and API server and prints figures as one JSON object.
//
//	make controlplane                                       # once: builds the programs into bin/
//	go -C bench run ./kubernetes --kind Run                 # 1,000 runs of one subject, one after the other
//	go -C bench run ./kubernetes --kind ConfigMap
//	go -C bench run ./kubernetes --kind Run --subjects 100  # of a hundred, that many at once
//	go -C bench run ./kubernetes --kind Run --cache 10000   # memory of 10,000 finished runs in the cache
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/store/kubestore"
	"github.com/pawl-dev/pawl/store/kubestore/kubetest"
	"github.com/pawl-dev/pawl/workflow"
)

type options struct {
	kind       string
	bin        string
	kubeconfig string
	dir        string
	runs       int
	steps      int
	subjects   int
	cache      int
}

func main() {
	var o options
	flags := flag.NewFlagSet("kubernetes", flag.ExitOnError) // controller-runtime has put flags of its own into the other one
	flags.StringVar(&o.kind, "kind", "Run", "Run or ConfigMap")
	flags.StringVar(&o.bin, "bin", "../bin", "`folder` of etcd and kube-apiserver")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "measure this cluster (its CRDs are there) instead of starting one")
	flags.StringVar(&o.dir, "dir", "", "`folder` on the disk to measure (default that of temporary files)")
	flags.IntVar(&o.runs, "runs", 1000, "how many")
	flags.IntVar(&o.steps, "steps", 10, "no-op steps of each")
	flags.IntVar(&o.subjects, "subjects", 1, "subjects; each has one run after the other, all side by side")
	flags.IntVar(&o.cache, "cache", 0, "only fill the store with so many runs, and tell what its cache needs")
	_ = flags.Parse(os.Args[1:]) // it exits by itself
	log.SetLogger(logr.Discard())
	slog.SetDefault(slog.New(slog.DiscardHandler))
	figures, err := run(context.Background(), o)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(figures)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "kubernetes:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (figures map[string]float64, err error) {
	config, stop, err := o.plane()
	if err != nil {
		return nil, err
	}
	defer stop()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	space := "bench-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	_, err = client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space}}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	if o.kubeconfig != "" {
		defer func() {
			_ = client.CoreV1().Namespaces().Delete(context.WithoutCancel(ctx), space, metav1.DeleteOptions{})
		}()
	}
	wire := kubetest.NewWire(1)
	open := func(config *rest.Config) (*kubestore.Store, error) {
		return kubestore.Open(ctx, kubestore.Options{Config: config, Kind: kubestore.Kind(o.kind), Namespace: space, Only: true})
	}
	store, err := open(wire.Config(config))
	if err != nil {
		return nil, err
	}
	defer store.Close()
	if o.cache > 0 {
		o.runs, o.subjects = o.cache, 100
	}
	figures, err = o.measure(ctx, store, wire)
	if err != nil || o.cache == 0 {
		return figures, err
	}
	store.Close()
	return cached(o, open, config)
}

// measure executes the runs and counts what each part of them costs.
func (o options) measure(ctx context.Context, store *kubestore.Store, wire *kubetest.Wire) (map[string]float64, error) {
	flow := workflow.Flow{Name: "Bench"}
	for i := range o.steps {
		flow.Steps = append(flow.Steps, workflow.Step{Name: fmt.Sprint("Step", i), Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }})
	}
	ended := newEnds()
	engine, err := workflow.New(store, []workflow.Flow{flow}, workflow.Options{Attempts: 256, Hooks: []workflow.Hook{{Name: "ends", Hear: ended.hear}}})
	if err != nil {
		return nil, err
	}
	serving, halt := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- engine.Serve(serving) }()
	defer func() {
		halt()
		if err := <-served; err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintln(os.Stderr, err)
		}
	}()

	// The first run opens what all share: the lease of the worker, the definition, the slots.
	if err := o.series(ctx, engine, ended, 0, o.subjects); err != nil {
		return nil, err
	}
	wire.Take()
	began, cpu := time.Now(), cpuTime()
	parts := make([]kubetest.Count, 0, 10)
	n := max(o.runs/10, o.subjects)
	done := 0
	for done < o.runs {
		if err := o.series(ctx, engine, ended, o.subjects+done, n); err != nil {
			return nil, err
		}
		done += n
		parts = append(parts, wire.Take())
	}
	spent, used := time.Since(began), cpuTime()-cpu
	var all kubetest.Count
	for _, part := range parts {
		all.Requests += part.Requests
		all.Sent += part.Sent
		all.Received += part.Received
		all.WatchSent += part.WatchSent
	}
	steps := float64(done * o.steps)
	each := func(c kubetest.Count, n float64) float64 { return float64(c.Sent+c.Received) / n }
	first, last := parts[0], parts[len(parts)-1]
	return map[string]float64{
		"requestsPerStep": float64(all.Requests) / steps, "sentPerStep": float64(all.Sent) / steps, "receivedPerStep": float64(all.Received) / steps,
		"bytesPerStep": each(all, steps), "growth": each(last, 1) / each(first, 1), "watchBytesPerStep": float64(all.WatchSent) / steps,
		"stepsPerSecond": steps / spent.Seconds(), "cpuSecondsPer1000Steps": used.Seconds() / steps * 1000, "runs": float64(done),
	}, nil
}

// series executes runs of all subjects: one of a subject after the other.
func (o options) series(ctx context.Context, engine *workflow.Engine, ended *ends, from, n int) error {
	errs := make(chan error, o.subjects)
	for subject := range o.subjects {
		go func() {
			for i := subject; i < n; i += o.subjects {
				r, err := engine.Start(ctx, workflow.Request{Flow: "Bench", Subject: fmt.Sprint("kind/space/", subject), RequestID: strconv.Itoa(from + i)})
				if err != nil {
					errs <- err
					return
				}
				ended.wait(r.ID)
			}
			errs <- nil
		}()
	}
	var first error
	for range o.subjects {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// cached opens the store anew and tells what its cache needs.
func cached(o options, open func(*rest.Config) (*kubestore.Store, error), config *rest.Config) (map[string]float64, error) {
	heap := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before, began := heap(), time.Now()
	store, err := open(config)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	spent := time.Since(began)
	held := heap() - before
	runtime.KeepAlive(store)
	return map[string]float64{"runs": float64(o.cache), "heapMiB": held / (1 << 20), "bytesPerRun": held / float64(o.cache), "openSeconds": spent.Seconds()}, nil
}

// plane starts etcd and an API server with the CRDs, or reaches the one that was named.
func (o options) plane() (*rest.Config, func(), error) {
	if o.kubeconfig != "" {
		config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
		if err != nil {
			return nil, nil, err
		}
		config.QPS = -1
		return config, func() {}, nil
	}
	dir, err := os.MkdirTemp(o.dir, "pawl-kubernetes-")
	if err != nil {
		return nil, nil, err
	}
	own := false
	env := &envtest.Environment{UseExistingCluster: &own, CRDDirectoryPaths: []string{"../deploy/crds"}, ErrorIfCRDPathMissing: true, ControlPlaneStartTimeout: 2 * time.Minute}
	env.ControlPlane.KubectlPath = filepath.Join(o.bin, "kubectl")
	env.ControlPlane.Etcd = &envtest.Etcd{Path: filepath.Join(o.bin, "etcd"), DataDir: filepath.Join(dir, "etcd"), Out: io.Discard, Err: io.Discard}
	server := env.ControlPlane.GetAPIServer()
	server.Path, server.Out, server.Err = filepath.Join(o.bin, "kube-apiserver"), io.Discard, io.Discard
	server.Configure().Set("advertise-address", "192.0.2.10").Set("endpoint-reconciler-type", "none")
	config, err := env.Start()
	stop := func() {
		_ = env.Stop()
		os.RemoveAll(dir)
	}
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("starting etcd and the API server of %s (make controlplane builds them): %w", o.bin, err)
	}
	return config, stop, nil
}

// ends tells when runs have ended.
type ends struct {
	mu   sync.Mutex
	over map[string]chan struct{}
}

func newEnds() *ends { return &ends{over: map[string]chan struct{}{}} }

func (e *ends) of(id string) chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.over[id] == nil {
		e.over[id] = make(chan struct{})
	}
	return e.over[id]
}

func (e *ends) hear(_ workflow.RunInfo, event workflow.Event) {
	if event.Kind == workflow.RunSucceeded {
		close(e.of(event.Run))
	}
}

func (e *ends) wait(id string) {
	<-e.of(id)
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.over, id)
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
