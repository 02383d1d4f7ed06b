// Package foundationdb demonstrates the FoundationDB operator: a real control plane, `pawl operator` as a process, pods
// that are processes of fdbsim, and a client that writes all the time.
//
//	d, err := foundationdb.New(ctx, stage.Options{Root: root, Out: os.Stdout})
//	defer d.Close()
//	for _, act := range d.Acts() {
//		err = d.Play(ctx, act)
//	}
//
// `make demo-fdb` shows it to people; the end-to-end test runs the same acts and checks with [Demo.Facts] that no key was
// lost.
package foundationdb

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/operator/foundationdb/kube"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
	"github.com/pawl-dev/pawl/test/demo/stage"
	fdbtest "github.com/pawl-dev/pawl/test/foundationdb"
)

const (
	namespace = "default"
	name      = "orders"
	nodes     = 4 // each a fault domain

	before, after = "7.3.69", "7.4.6" // versions
	rows          = 1000              // of the table that is wiped and restored
)

// Facts are the measurements of the demo.
type Facts struct {
	Acked, Lost int           // keys that were acknowledged, and how many of them are not there
	Gap, Locked time.Duration // the longest time between two acknowledgements: before the restores, and with them
	Excluded    int           // groups that the second operator excluded anew
	Restarts    int           // of all servers, for the upgrade
	Restored    []int         // rows after each restore
	Violations  []sim.Violation
}

// Demo is a control plane with an operator.
type Demo struct {
	*stage.Stage
	dir         string // manifests, and the credentials of the blob store
	client      client.Client
	environment *fdbtest.Environment
	operator    *fdbtest.Operator
	connection  string // the last one known
	told        int    // lines of the database's transcript
	facts       Facts
}

// New starts the control plane and the nodes.
func New(ctx context.Context, o stage.Options) (d *Demo, err error) {
	d = &Demo{}
	if d.dir, err = os.MkdirTemp("", "pawl-fdb-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Close())
		}
	}()
	d.Stage, err = stage.New(ctx, o, controlplane.Options{
		CRDs:      []string{filepath.Join(o.Root, "deploy", "crds"), filepath.Join(o.Root, "deploy", "fdb")},
		Endpoints: true, Kubelet: kubelet.Options{Nodes: -1},
	})
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(kube.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	if d.client, err = client.New(d.Plane.Config(), client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	d.environment, err = fdbtest.Start(ctx, d.Plane, "node", fdbtest.Options{Nodes: nodes, Model: sim.Options{ShardBytes: 2 << 20}})
	if err != nil {
		return nil, err
	}
	d.Print("Its %d nodes run pods as processes; FoundationDB is played by fdbsim.", nodes)
	return d, nil
}

// Facts returns the measurements so far.
func (d *Demo) Facts() Facts { return d.facts }

// Close stops all processes.
func (d *Demo) Close() error {
	var err error
	if d.operator != nil {
		err = d.operator.Stop(context.Background())
	}
	if d.environment != nil {
		err = errors.Join(err, d.environment.Close(context.Background()))
	}
	if d.Stage != nil {
		err = errors.Join(err, d.Stage.Close())
	}
	return errors.Join(err, os.RemoveAll(d.dir))
}

// Acts returns all acts in order.
func (d *Demo) Acts() []stage.Act {
	acts := []stage.Act{
		{Name: "Create", Title: "A database of 12 groups, from our example, and a client that writes", Do: d.create},
		{Name: "Plan", Title: "What would an upgrade do? The plan, before anything is applied", Do: d.plan},
		{Name: "Hang", Title: "A storage pod hangs. The others go on; why does it not?", Do: d.hang},
		{Name: "Kill", Title: "The group is replaced, and the operator killed between its exclusion and its removal", Do: d.kill},
		{Name: "Upgrade", Title: "An incompatible upgrade, held by one old client", Do: d.upgrade},
		{Name: "Release", Title: "The client goes, and the upgrade begins: one restart", Do: d.release},
		{Name: "Restore", Title: "A backup, a table wiped, a restore, and a second one", Do: d.restore},
		{Name: "Keys", Title: "All this time a client wrote: is every key there that was acknowledged?", Do: d.keys},
	}
	if d.Keep {
		acts = append(acts, stage.Act{Name: "Keep", Title: "It keeps running", Do: d.keep})
	}
	return acts
}

func (d *Demo) keep(context.Context) error {
	d.Print("$ export KUBECONFIG=%s PATH=%s/bin:$PATH\n$ kubectl get fdb,pods\nCtrl-C ends it.", d.Plane.Kubeconfig(), d.Root)
	return nil
}
