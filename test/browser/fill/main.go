// Command fill fills the database of a server and its simulated cloud with
// clusters, for console tests with a long list. The server must not run.
//
//	go -C test run ./browser/fill --dir DIR --clusters 10000
//
// DIR gets pawl.db, its key, and cloud.json, the file of the provider sim. Each
// tenth cluster is Stopped, each hundredth has lost its worker and will become
// Alert. Three VMs have the server's tag but no cluster; six deletions of one VM
// of c00002 have failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/provider/sim"
	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/secrets"
)

const (
	installation = "walks" // must be that of the server's configuration
	leaking      = 2       // number of the cluster with a VM that could not be deleted
)

func main() {
	dir := flag.String("dir", "", "`folder` to fill")
	clusters := flag.Int("clusters", 10_000, "how many")
	flag.Parse()
	if err := run(context.Background(), *dir, *clusters); err != nil {
		fmt.Fprintln(os.Stderr, "fill:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, dir string, clusters int) (err error) {
	path := filepath.Join(dir, "pawl.db")
	keys, err := secrets.MasterKeyFile(path + ".key")
	if err != nil {
		return err
	}
	store, err := sql.Open(ctx, sql.Options{Path: path, MasterKeys: keys})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	cloud, err := sim.New(sim.Options{File: filepath.Join(dir, "cloud.json"), Installation: installation, Templates: []cluster.Entry{{ID: "node-1.0", Name: "node-1.0", Default: true}}, ForgetUserData: true, Log: -1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cloud.Close()) }()
	f := filler{records: store.Clusters(), cloud: cloud, now: time.Now().UTC()}
	for i := range clusters {
		if err := f.cluster(ctx, i); err != nil {
			return fmt.Errorf("cluster %d: %w", i, err)
		}
	}
	return f.orphans()
}

type filler struct {
	records cluster.Store
	cloud   *sim.Cloud
	now     time.Time
}

// cluster commits a cluster of a control node and a worker, as the service would.
func (f *filler) cluster(ctx context.Context, i int) error {
	created := f.now.Add(-time.Duration(i) * time.Minute)
	c := &cluster.Cluster{
		UUID: control.NewUID(), Name: fmt.Sprintf("c%05d", i), Description: "filled", Owner: cluster.Owner{AccountID: account.SystemID, DomainID: account.RootID}, Provider: "sim",
		Zone: cluster.Entity{ID: "zone-1", Name: "zone-1"}, Offering: cluster.Entity{ID: "small", Name: "small"}, Template: cluster.Entity{ID: "node-1.0", Name: "node-1.0"}, Version: "v1.0",
		Desired: cluster.WantRunning, State: cluster.Running, StateSince: created, Started: true, NodeCount: 1, ControlCount: 1,
		Cores: 2, MemoryMB: 2048, Created: created, GC: true, Recovery: cluster.Recovery{},
	}
	stopped, lost := i%10 == 1, i%100 == 3
	if stopped {
		c.Desired, c.State = cluster.WantStopped, cluster.Stopped
	}
	change := &cluster.Change{Cluster: c}
	for _, role := range []cluster.Role{cluster.Control, cluster.Worker} {
		name := cluster.NodeName(c, role, 1)
		row := &cluster.JournalRow{Kind: cluster.VM, Name: name, Key: "run/make/" + name, Phase: cluster.Present, Origin: cluster.OriginCreated, CallID: control.NewUID(), PresentAt: created}
		made, err := f.vm(name, c.UUID, row.Key)
		if err != nil {
			return err
		}
		switch {
		case stopped:
			err = f.cloud.StopVM(made.ID)
		case lost && role == cluster.Worker:
			err = f.cloud.DestroyVM(made.ID)
		}
		if err != nil {
			return err
		}
		row.ProviderID, row.Identity = made.ID, made.Identity
		change.Journal = append(change.Journal, row)
		change.Nodes = append(change.Nodes, &cluster.Node{VMID: made.ID, Key: row.Key, Name: name, Role: role, Ordinal: 1, Version: "1.0.0", ReadyAt: created, HeartbeatAt: f.now.Add(time.Hour)})
	}
	if i == leaking {
		row := &cluster.JournalRow{Kind: cluster.VM, Name: cluster.NodeName(c, cluster.Worker, 2), Key: "run/make/worker2", Phase: cluster.Leaked, Origin: cluster.OriginCreated, CallID: control.NewUID(),
			PresentAt: created, ClosingAt: created, Attempts: 6, NextAt: f.now.Add(6 * time.Hour), LastCode: cluster.ProviderRefused.Code, LastError: "<b>no</b>, said the provider"}
		made, err := f.vm(row.Name, c.UUID, row.Key)
		if err != nil {
			return err
		}
		row.ProviderID, row.Identity = made.ID, made.Identity
		change.Journal = append(change.Journal, row)
	}
	return f.records.Commit(ctx, change)
}

func (f *filler) vm(name, uuid, key string) (cluster.Resource, error) {
	return f.cloud.Add(cluster.DesiredResource{
		Kind: cluster.VM, Name: name, Key: key, Owner: cluster.Owner{AccountID: account.SystemID, DomainID: account.RootID},
		Tags: map[string]string{cluster.TagInstallation: installation, cluster.TagCluster: uuid, cluster.TagKey: key},
		Spec: cluster.Spec{Zone: "zone-1", Offering: "small", Template: "node-1.0"},
	})
}

// orphans creates VMs with our tag whose clusters do not exist.
func (f *filler) orphans() error {
	for i := range 3 {
		if _, err := f.vm(fmt.Sprintf("orphan%d", i+1), control.NewUID(), "run/make/orphan"); err != nil {
			return err
		}
	}
	return nil
}
