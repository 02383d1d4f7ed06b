// Command notifications measures what notifications cost the steps of runs, and how many webhooks a
// second a server sends. The store is SQLite, the receiver an HTTP server in a process of its own.
//
//	go -C bench run ./notifications
//
// Rounds take turns on one store: no notification; one that is told of nothing, while runs work; and
// one that is told of -rate runs a second. In each, closed-loop clients start flows of no-op steps.
// At the end a backlog is sent while nothing else works.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/notification"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/action/egress"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

const (
	flow  = "Bench"
	steps = 10
)

type options struct {
	rounds, clients, rate, backlog int
	length                         time.Duration
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 7, "rounds of each kind")
	flag.DurationVar(&o.length, "for", 4*time.Second, "length of a round")
	flag.IntVar(&o.clients, "clients", 100, "runs at once")
	flag.IntVar(&o.rate, "rate", 1000, "webhooks a second")
	flag.IntVar(&o.backlog, "backlog", 10_000, "webhooks that are sent at the end")
	receiver := flag.Bool("receiver", false, "be the receiver")
	flag.Parse()
	do := func() error { return run(context.Background(), o) }
	if *receiver {
		do = receive
	}
	if err := do(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// receive accepts webhooks until its input ends. GET tells how many there were.
func receive() error {
	var count atomic.Int64
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, count.Load())
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		count.Add(1)
		w.WriteHeader(http.StatusNoContent)
	})}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", ln.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = server.Close()
	}()
	if err := server.Serve(ln); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// world is a server with its clients and the receiver.
type world struct {
	sql.Store
	options
	engine   *workflow.Engine
	notifier control.Notifier
	url      string
	policy   *egress.Policy

	mu    sync.Mutex
	ended map[string]chan struct{}
	next  atomic.Int64 // run
	told  int64        // runs with the label, of rounds that are told of
}

// Save implements runstore.Store: it tells a client that its run has ended.
func (w *world) Save(ctx context.Context, s *runstore.Save) error {
	err := w.Store.Save(ctx, s)
	if err == nil && s.Run.Phase.Final() {
		w.mu.Lock()
		defer w.mu.Unlock()
		close(w.ended[s.Run.ID])
		delete(w.ended, s.Run.ID)
	}
	return err
}

func (*world) Secret(context.Context, workflow.SecretRef) (string, error) {
	return "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", nil
}

func run(ctx context.Context, o options) error {
	folder, err := os.MkdirTemp("", "notifications")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	w := &world{options: o, ended: map[string]chan struct{}{}}
	if w.Store, err = sql.Open(ctx, sql.Options{Path: filepath.Join(folder, "pawl.db")}); err != nil {
		return err
	}
	defer w.Store.Close()
	if w.policy, err = egress.NewPolicy([]string{"127.0.0.1"}); err != nil {
		return err
	}
	stop, err := w.receiver()
	if err != nil {
		return err
	}
	defer stop()
	f := workflow.Flow{Name: flow}
	for i := range steps {
		f.Steps = append(f.Steps, workflow.Step{Name: fmt.Sprint("step-", i+1), Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }})
	}
	hook := workflow.Hook{Name: "events", OnEvent: func(workflow.RunInfo, runtype.Event) { w.notifier.Notify() }} // as pawl server has it
	if w.engine, err = workflow.New(w, []workflow.Flow{f}, workflow.Options{Attempts: o.clients, Hooks: []workflow.Hook{hook}, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		return err
	}
	serving, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	all.Go(func() { _ = w.engine.Serve(serving) })
	if _, err := w.work(ctx, o.length/2, 0); err != nil { // warm up
		return err
	}
	if err := w.compare(ctx); err != nil {
		return err
	}
	return w.drain(ctx)
}

// receiver starts the receiver.
func (w *world) receiver() (stop func(), err error) {
	cmd := exec.Command(os.Args[0], "-receiver")
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	w.url = strings.TrimSpace(line)
	return func() { _ = in.Close(); _ = cmd.Wait() }, err
}

func (w *world) received() (int, error) {
	answer, err := http.Get(w.url)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(data))
}

// figures are those of one round.
type figures struct {
	perSecond, cpu float64 // steps; µs of this process a step, without the receiver
	labelled       int64   // runs
}

// work runs the clients for some time. Of the runs, rate a second have the label that a notification looks for.
func (w *world) work(ctx context.Context, length time.Duration, rate int) (f figures, err error) {
	begin, cpu, runs := time.Now(), processor(), atomic.Int64{}
	labelled := atomic.Int64{}
	var all sync.WaitGroup
	errs := make(chan error, w.clients)
	for range w.clients {
		all.Go(func() {
			for time.Since(begin) < length {
				labels := map[string]string{}
				if n := labelled.Add(1); float64(n) <= time.Since(begin).Seconds()*float64(rate) {
					labels["told"] = "yes"
				} else {
					labelled.Add(-1)
				}
				if err := w.one(ctx, labels); err != nil {
					errs <- err
					return
				}
				runs.Add(1)
			}
		})
	}
	all.Wait()
	took := time.Since(begin)
	select {
	case err := <-errs:
		return f, err
	default:
		n := float64(runs.Load() * steps)
		return figures{n / took.Seconds(), float64((processor() - cpu).Microseconds()) / n, labelled.Load()}, nil
	}
}

func processor() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (w *world) one(ctx context.Context, labels map[string]string) error {
	subject := fmt.Sprint("bench/default/", w.next.Add(1))
	id, ended := workflow.RunID(subject, flow, "1"), make(chan struct{})
	w.mu.Lock()
	w.ended[id] = ended
	w.mu.Unlock()
	if _, err := w.engine.Start(ctx, workflow.Request{Flow: flow, Subject: subject, RequestID: "1", Labels: labels}); err != nil {
		return err
	}
	<-ended
	return nil
}

// notified serves a notification while do works. It ends when all that it is to be told of was received.
func (w *world) notified(ctx context.Context, spec string, do func() error) error {
	ref := control.Ref{Kind: notification.Kind, Namespace: "default", Name: "bench"}
	if _, err := w.Objects().Apply(ctx, control.Object{Ref: ref, Spec: json.RawMessage(fmt.Sprintf(spec, w.url))}); err != nil {
		return err
	}
	s := notification.New(notification.Options{Objects: w.Objects(), History: w, Secrets: w, Changed: w.notifier.Next,
		Client: func() *http.Client { return w.policy.Client(egress.ClientOptions{Idle: notification.Idle}) }})
	if err := s.Pass(ctx, ref); err != nil { // it begins now
		return err
	}
	serving, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { _ = s.Serve(serving) })
	err := do()
	cancel()
	all.Wait()
	if _, gone := w.Objects().Delete(ctx, ref, 0); err == nil {
		err = gone
	}
	return err
}

const (
	idleSpec = `{"url": %q, "secrets": [{"name": "a"}], "events": ["run.paused"]}`
	toldSpec = `{"url": %q, "secrets": [{"name": "a"}], "events": ["run.succeeded"], "filter": "event.labels.told == \"yes\""}`
)

// compare prints the steps a second of rounds that take turns.
func (w *world) compare(ctx context.Context) error {
	var without, idle, told []figures
	var hooks []float64
	fmt.Println("round  none steps/s    µs  idle steps/s    µs  told steps/s    µs  webhooks/s")
	for i := range w.rounds {
		measure := []func() error{
			func() error { return add(&without, func() (figures, error) { return w.work(ctx, w.length, w.rate) }) },
			func() error {
				return w.notified(ctx, idleSpec, func() error {
					return add(&idle, func() (figures, error) { return w.work(ctx, w.length, w.rate) })
				})
			},
			func() error {
				return w.notified(ctx, toldSpec, func() error {
					before, err := w.received()
					if err != nil {
						return err
					}
					begin := time.Now()
					if err := add(&told, func() (figures, error) { return w.work(ctx, w.length, w.rate) }); err != nil {
						return err
					}
					w.told += told[len(told)-1].labelled
					after, err := w.received()
					hooks = append(hooks, float64(after-before)/time.Since(begin).Seconds())
					if err != nil {
						return err
					}
					return w.all(ctx)
				})
			},
		}
		for k := range measure { // in another order each time: the store grows
			if err := measure[(k+i)%len(measure)](); err != nil {
				return err
			}
		}
		fmt.Printf("%5d", i+1)
		for _, f := range []figures{without[i], idle[i], told[i]} {
			fmt.Printf(" %13.0f %5.1f", f.perSecond, f.cpu)
		}
		fmt.Printf(" %11.0f\n", hooks[i])
	}
	speed, cpu := func(f figures) float64 { return f.perSecond }, func(f figures) float64 { return f.cpu }
	for _, kind := range []struct {
		name string
		all  []figures
	}{{"none", without}, {"idle", idle}, {"told", told}} {
		fmt.Printf("%s: %.0f steps/s (%+.1f %%), %.1f µs of CPU a step (%+.1f %%)\n", kind.name, median(kind.all, speed), 100*(median(kind.all, speed)/median(without, speed)-1),
			median(kind.all, cpu), 100*(median(kind.all, cpu)/median(without, cpu)-1))
	}
	fmt.Printf("told: %.0f webhooks/s\n", median(hooks, func(v float64) float64 { return v }))
	return nil
}

func add(to *[]figures, measure func() (figures, error)) error {
	v, err := measure()
	*to = append(*to, v)
	return err
}

func median[T any](values []T, of func(T) float64) float64 {
	var sorted []float64
	for _, v := range values {
		sorted = append(sorted, of(v))
	}
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}

// all waits until each labelled run was told of.
func (w *world) all(ctx context.Context) error {
	for limit := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		n, err := w.received()
		if err != nil || int64(n) >= w.told {
			return err
		}
		if time.Now().After(limit) {
			return fmt.Errorf("%d webhooks of %d came", n, w.told)
		}
	}
}

// drain measures how fast a backlog is sent.
func (w *world) drain(ctx context.Context) error {
	ref := control.Ref{Kind: notification.Kind, Namespace: "default", Name: "bench"}
	pause := func(o *control.Object) error {
		o.Annotations = map[string]string{notification.PauseAnnotation: "the backlog grows"}
		return nil
	}
	return w.notified(ctx, toldSpec, func() error {
		if _, err := control.Modify(ctx, w.Objects(), ref, pause); err != nil {
			return err
		}
		before := w.told
		for w.told-before < int64(w.backlog) {
			f, err := w.work(ctx, 100*time.Millisecond, 1<<30)
			if err != nil {
				return err
			}
			w.told += f.labelled
		}
		n, begin := w.told-before, time.Now()
		if _, err := control.Modify(ctx, w.Objects(), ref, func(o *control.Object) error { o.Annotations = nil; return nil }); err != nil {
			return err
		}
		if err := w.all(ctx); err != nil {
			return err
		}
		fmt.Printf("backlog: %d webhooks in %s, %.0f/s\n", n, time.Since(begin).Round(time.Millisecond), float64(n)/time.Since(begin).Seconds())
		return nil
	})
}
