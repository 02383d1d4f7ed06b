package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/kube/runstore/kubetest"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// parts is the number of parts of the runs, to compare the first with the last.
const parts = 10

// step measures the cost of a step for a store.
func step(ctx context.Context, o options) (figures, error) {
	p, err := o.start()
	if err != nil {
		return nil, err
	}
	defer p.stop()
	space, remove, err := p.namespace(ctx)
	if err != nil {
		return nil, err
	}
	defer remove()
	wire := kubetest.NewFaultyTransport(1)
	store, err := o.open(ctx, wire.Config(p.config), space)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	flow := workflow.Flow{Name: "Bench"}
	for i := range o.steps {
		flow.Steps = append(flow.Steps, workflow.Step{Name: fmt.Sprint("Step", i), Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }})
	}
	ended := newCompletions()
	engine, err := workflow.New(store, []workflow.Flow{flow}, workflow.Options{Attempts: 256, Hooks: []workflow.Hook{{Name: "ends", OnEvent: ended.onEvent}}})
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
	s := &series{o: o, engine: engine, ended: ended, space: space}

	// The first run creates what all share: the lease of the worker, the definition, the
	// slots.
	if err := s.execute(ctx, o.subjects); err != nil {
		return nil, err
	}
	wire.Take()
	began, before := time.Now(), used()
	var counts []kubetest.Count
	var spent []usage
	n := max(o.runs/parts, o.subjects)
	done, last := 0, before
	for done < o.runs {
		if err := s.execute(ctx, n); err != nil {
			return nil, err
		}
		done += n
		now := used()
		counts, spent, last = append(counts, wire.Take()), append(spent, now.since(last)), now
		o.logf("%d runs: %+v, CPU %+v", done, counts[len(counts)-1].By, spent[len(spent)-1])
	}
	took, all := time.Since(began), last.since(before)
	return o.perStep(counts, spent, took, all, done), nil
}

func (o options) perStep(counts []kubetest.Count, spent []usage, took time.Duration, all usage, runs int) figures {
	var sum kubetest.Count
	for _, c := range counts {
		sum.Requests += c.Requests
		sum.Sent += c.Sent
		sum.Received += c.Received
		sum.WatchSent += c.WatchSent
	}
	steps := float64(runs * o.steps)
	bytes := func(c kubetest.Count) float64 { return float64(c.Sent + c.Received) }
	first, last := counts[0], counts[len(counts)-1]
	grown := func(of func(usage) time.Duration) float64 {
		return of(spent[len(spent)-1]).Seconds() / of(spent[0]).Seconds()
	}
	f := figures{
		"requestsPerStep": float64(sum.Requests) / steps, "sentPerStep": float64(sum.Sent) / steps, "receivedPerStep": float64(sum.Received) / steps,
		"bytesPerStep": bytes(sum) / steps, "growth": bytes(last) / bytes(first), "requestGrowth": float64(last.Requests) / float64(first.Requests),
		"watchBytesPerStep": float64(sum.WatchSent) / steps, "stepsPerSecond": steps / took.Seconds(), "runs": float64(runs),
		"cpuMsPerStep": all.own.Seconds() / steps * 1000, "cpuGrowth": grown(func(u usage) time.Duration { return u.own }),
	}
	if all.server > 0 { // the servers of an external cluster are not visible
		f["serverCPUMsPerStep"], f["etcdCPUMsPerStep"] = all.server.Seconds()/steps*1000, all.etcd.Seconds()/steps*1000
		f["serverCPUGrowth"] = grown(func(u usage) time.Duration { return u.server })
	}
	return f
}

// open opens a store on a namespace.
func (o options) open(ctx context.Context, config *rest.Config, space string) (*kuberuns.Store, error) {
	keep := kuberuns.Options{Config: config, Kind: kuberuns.Kind(o.kind), Namespace: space, SingleNamespace: true}
	if o.owned {
		keep.Owner = owner
	}
	return kuberuns.Open(ctx, keep)
}

// owner returns the owner reference of a subject, as the operator sets it. There is no
// garbage collector here, so the owner need not exist.
func owner(subject string) *metav1.OwnerReference {
	parts := strings.Split(subject, "/")
	if len(parts) != 4 {
		return nil
	}
	return &metav1.OwnerReference{APIVersion: "pawl.dev/v1alpha1", Kind: parts[0], Name: parts[2], UID: types.UID(parts[3])}
}

func subject(space string, i int) string {
	return fmt.Sprintf("%s/%s/orders-%d/3c6fd2a8-6f0a-4b43-9d3c-%012d", sharedstorage.Kind, space, i, i)
}

// series executes runs.
type series struct {
	o      options
	engine *workflow.Engine
	ended  *completions
	space  string
	begun  int
}

// execute executes n more runs of all subjects, one of a subject after the other.
func (s *series) execute(ctx context.Context, n int) error {
	from := s.begun
	s.begun += n
	errs := make(chan error, s.o.subjects)
	for k := range s.o.subjects {
		go func() {
			for i := k; i < n; i += s.o.subjects {
				r, err := s.engine.Start(ctx, workflow.Request{Flow: "Bench", Subject: subject(s.space, k), RequestID: strconv.Itoa(from + i)})
				if err == nil {
					err = s.ended.wait(ctx, r.ID)
				}
				if err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
	}
	var all error
	for range s.o.subjects {
		all = errors.Join(all, <-errs)
	}
	return all
}

// completions reports when runs have ended.
type completions struct {
	mu     sync.Mutex
	closed map[string]chan struct{}
}

func newCompletions() *completions { return &completions{closed: map[string]chan struct{}{}} }

func (e *completions) done(id string) chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed[id] == nil {
		e.closed[id] = make(chan struct{})
	}
	return e.closed[id]
}

func (e *completions) onEvent(_ workflow.RunInfo, event runtype.Event) {
	if event.Kind == runtype.RunSucceeded {
		close(e.done(event.Run))
	}
}

func (e *completions) wait(ctx context.Context, id string) error {
	select {
	case <-e.done(id):
	case <-ctx.Done():
		return ctx.Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.closed, id)
	return nil
}
