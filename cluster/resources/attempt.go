// Package resources creates, starts, stops and deletes the resources of a cluster at its
// provider. The journal has a row for each resource, written before each call, so
// that a crash at any moment leaves no resource without a record.
package resources

import (
	"context"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/heartbeat"
	"github.com/pawl-dev/pawl/cluster/records"
	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/workflow"
)

// Providers finds configured providers.
type Providers interface {
	Provider(name string) (cluster.Provider, error)
}

// Members learns of nodes before they are created.
type Members interface {
	Expect(uuid string, nodes []*cluster.Node, rows []*cluster.JournalRow)
}

// Tokens holds the join tokens of runs.
type Tokens interface {
	Of(run string) cluster.Secret
	Issue(run string, now time.Time) (edit records.Amendment, issued func())
}

// Home is where nodes send their heartbeats.
type Home struct {
	URL       string // base URL, without the path
	CA        string // PEM of the CA that nodes trust; empty: plain HTTP
	Bootstrap string // template of user data; empty: the built-in cloud-config
}

// Options of Resources.
type Options struct {
	Store        cluster.Records
	Providers    Providers
	Members      Members
	Tokens       Tokens
	Home         func() Home
	Installation string // id of this installation, in the tags of all resources
	Settings     settings.Settings
	Now          func() time.Time
}

// Resources opens attempts.
type Resources struct{ options Options }

// New returns the resources of clusters.
func New(o Options) *Resources { return &Resources{o} }

// Attempt is one attempt of a step: the task and input of its run, and the record
// of the cluster at the begin of the attempt.
type Attempt struct {
	Task     *workflow.Task
	Input    cluster.RunInput
	Record   *cluster.Record
	Cluster  *cluster.Cluster // of the record
	Provider cluster.Provider
	Caps     cluster.Capabilities
	Now      time.Time // when the record was read

	options *Options
	details *cluster.Details // nil until Details reads them
	began   time.Time
}

// Bounds are the time limit of one try and the number of tries.
type Bounds struct {
	Timeout time.Duration
	Tries   int
}

// Reasons of waits that the nodes and the journal of a cluster explain.
const (
	WaitsForNodes    = "NodesNotReady"
	WaitsForProvider = "Provider"
)

// NodePollInterval is the poll interval of steps that wait for nodes without a
// signal.
const NodePollInterval = 15 * time.Second

// Open reads the state for an attempt.
func (s *Resources) Open(ctx context.Context, t *workflow.Task) (*Attempt, error) {
	w := &Attempt{Task: t, options: &s.options, began: s.options.Now()}
	if err := t.Input(&w.Input); err != nil {
		return nil, err
	}
	if err := w.Reload(ctx); err != nil {
		return nil, err
	}
	var err error
	if w.Provider, err = s.options.Providers.Provider(w.Cluster.Provider); err != nil {
		return nil, err
	}
	w.Caps = w.Provider.Capabilities()
	return w, nil
}

// Reload reads the newest record.
func (w *Attempt) Reload(ctx context.Context) error {
	record, err := w.options.Store.Record(ctx, w.Input.Cluster)
	if err != nil {
		return err
	}
	w.Record, w.Cluster, w.details, w.Now = record, &record.Cluster, nil, w.options.Now()
	return nil
}

// Details returns the details of the cluster. It reads them once per record.
func (w *Attempt) Details(ctx context.Context) (*cluster.Details, error) {
	if w.details == nil {
		d, err := w.options.Store.Details(ctx, w.Input.Cluster)
		if err != nil {
			return nil, err
		}
		w.details = d
	}
	return w.details, nil
}

// CheckCurrent fails if the cluster has moved on to another run: this run must
// make no more calls to the provider. STATE_REFUSED.
func (w *Attempt) CheckCurrent() error {
	p := w.Cluster.Position
	if p.Run == w.Task.RunID() || p.Run == "" && workflow.RunID(cluster.Subject(w.Cluster.UUID), cluster.FlowOf[p.State], p.RequestID()) == w.Task.RunID() {
		return nil
	}
	return cluster.StateRefused.Errorf("cluster %s is %s now: run %s stops", w.Cluster.Name, w.Cluster.State, w.Task.RunID()).With("state", string(w.Cluster.State))
}

// Save writes a change of the cluster; nothing if the change is empty.
func (w *Attempt) Save(ctx context.Context, change cluster.Change) error {
	if len(change.Journal)+len(change.Nodes) == 0 && change.Details == nil && change.Cluster == nil {
		return nil
	}
	if change.Cluster == nil {
		change.ClusterID = w.Cluster.ID
	}
	return w.options.Store.Commit(ctx, &change)
}

// Amend is records.Amend of the cluster of w. It updates w.
func (w *Attempt) Amend(ctx context.Context, edit records.Amendment) error {
	if _, err := w.Details(ctx); err != nil {
		return err
	}
	p, err := records.AmendFrom(ctx, w.options.Store, w.Input.Cluster, records.Pair{Cluster: w.Cluster, Details: w.details}, edit)
	if err == nil {
		*w.Cluster, w.details = *p.Cluster, p.Details
	}
	return err
}

// Waited returns how long the step has waited, over all its attempts.
func (w *Attempt) Waited() time.Duration {
	if since := w.Task.Waited(); since != nil {
		return w.Now.Sub(since.Since)
	}
	return 0
}

// Row returns the journal row with a key; nil if there is none.
func (w *Attempt) Row(key string) *cluster.JournalRow {
	for i := range w.Record.Journal {
		if key != "" && w.Record.Journal[i].Key == key {
			return &w.Record.Journal[i]
		}
	}
	return nil
}

// Nodes returns the nodes of a role, oldest first, without removed ones. An empty
// role means all roles.
func (w *Attempt) Nodes(role cluster.Role) []*cluster.Node {
	var found []*cluster.Node
	for i := range w.Record.Nodes {
		if n := &w.Record.Nodes[i]; n.Removed.IsZero() && (role == "" || n.Role == role) {
			found = append(found, n)
		}
	}
	slices.SortStableFunc(found, func(a, b *cluster.Node) int { return a.Ordinal - b.Ordinal })
	return found
}

// NodesNamed returns the nodes with these names, without removed ones.
func (w *Attempt) NodesNamed(names []string) []*cluster.Node {
	return slices.DeleteFunc(w.Nodes(""), func(n *cluster.Node) bool { return !slices.Contains(names, n.Name) })
}

// Supports reports a kind that the provider can create. Other kinds need no row.
func (w *Attempt) Supports(kind cluster.Kind) bool { return slices.Contains(w.Caps.Kinds, kind) }

// ConsumeSignals consumes the signals of heartbeats: the state of the nodes is
// in the record.
func (w *Attempt) ConsumeSignals() {
	for _, more := w.Task.Signal(heartbeat.Signal); more; _, more = w.Task.Signal(heartbeat.Signal) {
	}
}
