// Command clusters measures container clusters and prints the figures as one JSON
// object.
//
//	go -C bench run ./clusters --what list     # pages of 100 of 10,000 clusters, both APIs, 16 callers
//	go -C bench run ./clusters --what underway # a page of 100 clusters that all wait for their VMs, both APIs, 16 callers
//	go -C bench run ./clusters --what sync     # one pass over 10,000 clusters of 10 VMs on sim
//	go -C bench run ./clusters --what create   # 100 clusters of 10 VMs on sim, at once
//	go -C bench run ./clusters --what query    # /client/api with signature check, on one core
//	go -C bench run ./clusters --what waiting  # 10,000 runs that wait
//	go -C bench run ./clusters --what restart  # kill -9 with 1,000 open runs
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/cluster/providers"
	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/provider/sim"
	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/clusters"
	"github.com/pawl-dev/pawl/store/sql/secrets"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// figures are the printed results, by name.
type figures map[string]float64

type options struct {
	what     string
	dir      string
	clusters int
	vms      int // of a cluster, one of them the control node
	child    bool
	profile  string

	script   []sim.Rule // rules of the cloud
	attempts int        // limit of concurrent steps
	trace    *trace     // recording of the writes; nil: off
}

func main() {
	var o options
	flag.StringVar(&o.what, "what", "list", "list, underway, sync, create, query, waiting or restart")
	flag.StringVar(&o.dir, "dir", "", "`folder` on the disk to measure (default that of temporary files)")
	flag.IntVar(&o.clusters, "clusters", 0, "number of clusters (default: that of the requirement)")
	flag.IntVar(&o.vms, "vms", 10, "VMs of a cluster")
	flag.BoolVar(&o.child, "child", false, "be the process that is killed, on the file in --dir")
	flag.StringVar(&o.profile, "cpuprofile", "", "`file` for a CPU profile of what is measured")
	flag.Parse()
	if err := run(context.Background(), o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "clusters:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options, out io.Writer) error {
	if o.child {
		return child(ctx, o)
	}
	dir, err := os.MkdirTemp(o.dir, "pawl-clusters-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	o.dir = dir
	measures := map[string]struct {
		do       func(context.Context, options) (figures, error)
		clusters int
	}{"list": {list, 10_000}, "underway": {underway, 100}, "sync": {synchronise, 10_000}, "create": {create, 100}, "query": {requests, 100}, "waiting": {wait, 10_000}, "restart": {restart, 1_000}}
	m, ok := measures[o.what]
	if !ok {
		return fmt.Errorf("--what %s is none of list, underway, sync, create, query, waiting, restart", o.what)
	}
	if o.clusters == 0 {
		o.clusters = m.clusters
	}
	f, err := m.do(ctx, o)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(f)
}

var operator = cluster.Caller{
	User: "bench", Owner: cluster.Owner{AccountID: "bench", DomainID: "bench"}, Scope: cluster.Scope{All: true}, Operator: true,
}

// open opens the store in a folder.
func open(ctx context.Context, dir string) (sql.Store, error) {
	return sql.Open(ctx, sql.Options{Path: filepath.Join(dir, "pawl.db"), MasterKey: make([]byte, secrets.KeySize)})
}

// fixture is a running service on a simulated cloud.
type fixture struct {
	store         sql.Store
	cloud         *sim.Cloud
	service       *service.Service
	engine        *workflow.Engine
	passDurations chan time.Duration
	calls         *counter

	operations chan string // outcomes
}

func build(ctx context.Context, o options, t sim.Times, settings settings.Settings) (*fixture, error) {
	store, err := open(ctx, o.dir)
	if err != nil {
		return nil, err
	}
	w := &fixture{store: store, passDurations: make(chan time.Duration, 100), calls: newCounter(), operations: make(chan string, 100_000)}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	if w.cloud, err = sim.New(sim.Options{Installation: "bench", Times: t, Script: o.script, Home: w.heartbeat, ForgetUserData: true, Log: -1}); err != nil {
		return nil, err
	}
	w.service, err = service.New(service.Options{
		Records: &countingStore{store.Clusters(), w.calls, o.trace}, Locks: store.Locks(), Worker: "bench", Installation: "bench", HomeURL: "http://127.0.0.1",
		Providers: []providers.Named{{Name: "sim", Provider: w.cloud}}, Settings: settings, Logger: quiet, Metrics: &meter{w},
		Probe: func(context.Context, *cluster.Cluster, *cluster.Details) error { return nil },
	})
	if err != nil {
		return nil, err
	}
	runs := runstore.Store(store)
	if o.trace != nil {
		runs = &recordedStore{store, o.trace}
	}
	w.engine, err = workflow.New(runs, w.service.Flows(), workflow.Options{Hooks: []workflow.Hook{w.service.Hook()}, Attempts: cmp.Or(o.attempts, 256), Logger: quiet})
	if err != nil {
		return nil, err
	}
	return w, w.service.Bind(&sender{w.engine, w.calls})
}

func (w *fixture) heartbeat(ctx context.Context, token string, h cluster.Heartbeat) (cluster.HeartbeatAnswer, error) {
	return w.service.Heartbeat(context.WithValue(ctx, heartbeatKey{}, true), token, h)
}

// heartbeatKey marks the context of writes that a heartbeat causes.
type heartbeatKey struct{}

// The names that counter uses besides those of calls.
const (
	heartbeatWrite = "hello write"
	recordWrite    = "book write"

	recordRead  = "books read"
	detailsRead = "details read"
	listRead    = "lists read"
)

func (c *counter) countHeartbeat(ctx context.Context) {
	if ctx.Value(heartbeatKey{}) != nil {
		c.add(heartbeatWrite)
	}
}

// countingStore counts reads, and the writes of heartbeats.
type countingStore struct {
	*clusters.Store
	calls *counter
	trace *trace // nil: off
}

func (l *countingStore) Commit(ctx context.Context, c *cluster.Change) error {
	l.calls.add(recordWrite)
	l.calls.countHeartbeat(ctx)
	if l.trace == nil {
		return l.Store.Commit(ctx, c)
	}
	given := copyChange(c)
	l.trace.order.Lock()
	defer l.trace.order.Unlock()
	err := l.Store.Commit(ctx, c)
	if err == nil {
		l.trace.addCommit(given, c)
	}
	return err
}

// Record counts the read, as the next methods do.
func (l *countingStore) Record(ctx context.Context, uuid string) (*cluster.Record, error) {
	l.calls.add(recordRead)
	return l.Store.Record(ctx, uuid)
}

func (l *countingStore) Details(ctx context.Context, uuid string) (*cluster.Details, error) {
	l.calls.add(detailsRead)
	return l.Store.Details(ctx, uuid)
}

func (l *countingStore) List(ctx context.Context, q cluster.ClusterQuery) ([]cluster.Cluster, int, error) {
	l.calls.add(listRead)
	return l.Store.List(ctx, q)
}

func (l *countingStore) Heartbeats(ctx context.Context, heartbeats []cluster.NodeHeartbeat) error {
	l.calls.countHeartbeat(ctx)
	if l.trace != nil {
		l.trace.order.Lock()
		defer l.trace.order.Unlock()
	}
	err := l.Store.Heartbeats(ctx, heartbeats)
	if err == nil && l.trace != nil && len(heartbeats) > 0 {
		l.trace.addHeartbeats(heartbeats)
	}
	return err
}

// sender counts the signals that heartbeats cause.
type sender struct {
	*workflow.Engine
	calls *counter
}

func (s *sender) Send(ctx context.Context, id string, signal runtype.Signal) error {
	s.calls.countHeartbeat(ctx)
	return s.Engine.Send(ctx, id, signal)
}

// serve runs engine, service and cloud; stop ends them.
func (w *fixture) serve(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{}, 3)
	for _, part := range []func(context.Context) error{w.engine.Serve, w.service.Serve, w.cloud.Serve} {
		go func() {
			if err := part(ctx); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "clusters:", err)
			}
			done <- struct{}{}
		}()
	}
	return func() {
		cancel()
		for range 3 {
			<-done
		}
	}
}

// request is the create request of each cluster.
func request(o options, number int) api.CreateRequest {
	return api.CreateRequest{Name: fmt.Sprintf("c%05d", number), Zone: "zone-1", Offering: "small", Size: o.vms - 1}
}

// fillClusters stores running clusters with their nodes and journal, as a service
// would have left them. With a cloud it also adds their VMs.
func fillClusters(ctx context.Context, records cluster.Store, cloud *sim.Cloud, o options) error {
	now := time.Now().UTC()
	for i := range o.clusters {
		c := &cluster.Cluster{
			UUID: control.NewUID(), Name: fmt.Sprintf("c%05d", i), Owner: operator.Owner, Provider: "sim", Zone: cluster.Entity{ID: "zone-1", Name: "zone-1"},
			Offering: cluster.Entity{ID: "small", Name: "small"}, Template: cluster.Entity{ID: "node-image", Name: "node-image"},
			Desired: cluster.WantRunning, State: cluster.Running, StateSince: now, Started: true, NodeCount: o.vms - 1, ControlCount: 1,
			Cores: o.vms, MemoryMB: 1024 * o.vms, Created: now, GC: true,
		}
		change := &cluster.Change{Cluster: c}
		for n := range o.vms {
			role, ordinal := cluster.Worker, n
			if n == 0 {
				role, ordinal = cluster.Control, 1
			}
			name := cluster.NodeName(c, role, ordinal)
			row := &cluster.JournalRow{Kind: cluster.VM, Name: name, Key: "run/make/" + name, Phase: cluster.Present, Origin: cluster.OriginCreated, CallID: control.NewUID(), PresentAt: now}
			id := "vm-" + name
			if cloud != nil {
				created, err := cloud.Add(cluster.DesiredResource{Kind: cluster.VM, Name: name, Key: row.Key, Owner: c.Owner,
					Tags: map[string]string{cluster.TagInstallation: "bench", cluster.TagCluster: c.UUID, cluster.TagKey: row.Key},
					Spec: cluster.Spec{Zone: "zone-1", Offering: "small", Template: "node-image", Role: role}})
				if err != nil {
					return err
				}
				id, row.Identity = created.ID, created.Identity
			}
			row.ProviderID = id
			change.Journal = append(change.Journal, row)
			change.Nodes = append(change.Nodes, &cluster.Node{VMID: id, Key: row.Key, Name: name, Role: role, Ordinal: ordinal, ReadyAt: now, HeartbeatAt: now.Add(time.Hour)})
		}
		if err := records.Commit(ctx, change); err != nil {
			return err
		}
	}
	return nil
}

// startProfile starts the CPU profile if there is a file for it.
func (o options) startProfile() (stop func(), err error) {
	if o.profile == "" {
		return func() {}, nil
	}
	f, err := os.Create(o.profile)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() {
		pprof.StopCPUProfile()
		if err := f.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "clusters:", err)
		}
	}, nil
}

// percentile returns a percentile of times in ms. The times need not be sorted.
func percentile(times []time.Duration, share float64) float64 {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Clone(times)
	slices.Sort(sorted)
	return float64(sorted[min(len(sorted)-1, int(share*float64(len(sorted))))].Microseconds()) / 1000
}
