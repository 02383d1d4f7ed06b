package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/operator/sharedstorage/kube"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// cache measures the memory of finished runs in the caches that may hold them, each in its
// own process: the store's cache, and a cache of controller-runtime, stripped as Pawl's
// controllers do and unstripped.
func cache(ctx context.Context, o options) (figures, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	p, err := o.start()
	if err != nil {
		return nil, err
	}
	defer p.stop()
	if err := o.fill(ctx, p); err != nil {
		return nil, err
	}
	f := figures{"runs": float64(o.runs)}
	for _, kind := range []string{"store", "controller", "plain"} {
		cmd := exec.CommandContext(ctx, os.Args[0], "--open", kind, "--kubeconfig", p.kubeconfig, "--runs", strconv.Itoa(o.runs))
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("opening %s: %w", kind, err)
		}
		part := figures{}
		if err := json.Unmarshal(out, &part); err != nil {
			return nil, err
		}
		for key, v := range part {
			f[kind+key] = v
		}
	}
	return f, nil
}

// fill creates runs as the store does: it executes one and writes the others as copies.
// Each has its own subject.
func (o options) fill(ctx context.Context, p *plane) error {
	first, err := o.executed(ctx, p)
	if err != nil {
		return err
	}
	client, err := runsClient(p.config)
	if err != nil {
		return err
	}
	work := make(chan int)
	var all sync.WaitGroup
	errs := make(chan error, 32)
	for range cap(errs) {
		all.Go(func() {
			for i := range work {
				if err := copyRun(ctx, client, first, i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	for i := 1; i < o.runs; i++ {
		select {
		case work <- i:
		case err := <-errs:
			close(work)
			all.Wait()
			return err
		}
	}
	close(work)
	all.Wait()
	close(errs)
	for err := range errs {
		return err
	}
	return nil
}

// executed returns the object of a run that the engine has executed.
func (o options) executed(ctx context.Context, p *plane) (*v1alpha1.Run, error) {
	store, err := kuberuns.Open(ctx, kuberuns.Options{Config: p.config, Owner: owner})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	flow := workflow.Flow{Name: "Bench"}
	for i := range o.steps {
		flow.Steps = append(flow.Steps, workflow.Step{Name: fmt.Sprint("Step", i), Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }})
	}
	ended := newCompletions()
	engine, err := workflow.New(store, []workflow.Flow{flow}, workflow.Options{Hooks: []workflow.Hook{{Name: "ends", OnEvent: ended.onEvent}}})
	if err != nil {
		return nil, err
	}
	serving, halt := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- engine.Serve(serving) }()
	defer func() {
		halt()
		if err := <-served; err != nil {
			fmt.Fprintln(os.Stderr, "the engine:", err)
		}
	}()
	r, err := engine.Start(ctx, workflow.Request{Flow: "Bench", Subject: subject("default", 0), RequestID: "0"})
	if err == nil {
		err = ended.wait(ctx, r.ID)
	}
	if err != nil {
		return nil, err
	}
	client, err := runsClient(p.config)
	if err != nil {
		return nil, err
	}
	obj := &v1alpha1.Run{}
	return obj, client.Get().Namespace("default").Resource("runs").Name(r.ID).Do(ctx).Into(obj)
}

func runsClient(config *rest.Config) (*rest.RESTClient, error) {
	scheme := apiruntime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.GroupVersion, config.APIPath = &v1alpha1.GroupVersion, "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.RESTClientFor(config)
}

// copyRun writes a run like the first one.
func copyRun(ctx context.Context, client *rest.RESTClient, first *v1alpha1.Run, i int) error {
	obj := &v1alpha1.Run{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Run"}}
	obj.Name, obj.Namespace = fmt.Sprintf("%s%06d", first.Name[:20], i), first.Namespace
	obj.Spec = *first.Spec.DeepCopy()
	obj.Spec.Subject, obj.Spec.RequestID = subject("default", i), strconv.Itoa(i)
	obj.OwnerReferences = []metav1.OwnerReference{*owner(obj.Spec.Subject)}
	send := func(r *rest.Request) error { return r.Namespace(obj.Namespace).Resource("runs").Do(ctx).Error() }
	if err := send(client.Post().Body(obj)); err != nil {
		return err
	}
	if err := send(client.Patch(types.MergePatchType).Name(obj.Name).Body([]byte(`{"metadata":{"managedFields":[{}]}}`))); err != nil {
		return err
	}
	status, err := json.Marshal(map[string]any{"status": first.Status})
	if err != nil {
		return err
	}
	return send(client.Patch(types.MergePatchType).Name(obj.Name).SubResource("status").Body(status))
}

// measureCache opens one cache and measures its memory.
func measureCache(ctx context.Context, o options) (figures, error) {
	config, err := clientcmd.BuildConfigFromFlags("", o.kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	if _, err := runsClient(config); err != nil { // allocate first what every client needs
		return nil, err
	}
	heap, resident := memory()
	began := time.Now()
	kept, err := openCache(ctx, o, config)
	if err != nil {
		return nil, err
	}
	took := time.Since(began)
	heapThen, residentThen := memory()
	runtime.KeepAlive(kept)
	const mib = 1 << 20
	return figures{
		"HeapMiB": (heapThen - heap) / mib, "ResidentMiB": (residentThen - resident) / mib, "BytesPerRun": (heapThen - heap) / float64(o.runs),
		"ResidentBeforeMiB": resident / mib, "OpenSeconds": took.Seconds(),
	}, nil
}

func openCache(ctx context.Context, o options, config *rest.Config) (any, error) {
	if o.cache == "store" {
		store, err := kuberuns.Open(ctx, kuberuns.Options{Config: config})
		if err != nil {
			return nil, err
		}
		runs, _, err := store.List(ctx, runstore.Query{Limit: 1})
		if err == nil && len(runs) != 1 {
			err = errors.New("the store knows no run")
		}
		return store, err
	}
	scheme, err := kube.Scheme()
	if err != nil {
		return nil, err
	}
	var kept ctrlcache.Cache
	if o.cache == "controller" {
		m, err := controller.NewManager(config, controller.Options{Scheme: scheme, NoLeaderElection: true})
		if err != nil {
			return nil, err
		}
		kept = m.GetCache()
	} else if kept, err = ctrlcache.New(config, ctrlcache.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	go func() { _ = kept.Start(ctx) }() // it ends with the process
	if !kept.WaitForCacheSync(ctx) {
		return nil, errors.New("the cache did not fill")
	}
	list := &v1alpha1.RunList{}
	if err := kept.List(ctx, list); err != nil {
		return nil, err
	}
	if len(list.Items) != o.runs {
		return nil, fmt.Errorf("%d runs of %d are in the cache", len(list.Items), o.runs)
	}
	return kept, nil
}

// memory returns the memory of this process after garbage collection: heap and resident.
func memory() (heap, resident float64) {
	var m runtime.MemStats
	for range 3 {
		runtime.GC()
	}
	debug.FreeOSMemory()
	runtime.ReadMemStats(&m)
	text, _ := os.ReadFile("/proc/self/statm")
	if fields := strings.Fields(string(text)); len(fields) > 1 {
		pages, _ := strconv.ParseFloat(fields[1], 64)
		resident = pages * float64(os.Getpagesize())
	}
	return float64(m.HeapAlloc), resident
}
