package servicetest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/memory"
	"github.com/pawl-dev/pawl/provider/sim"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// story describes a cluster, its rows, resources, history and runs.
func story(records *memory.Store, runs *runstore.Memory, cloud *sim.Cloud, uuid string) string {
	ctx := context.Background()
	var b strings.Builder
	record, err := records.Record(ctx, uuid)
	if err != nil {
		return err.Error()
	}
	c := record.Cluster
	fmt.Fprintf(&b, "cluster %s desired %s/%d run %s request %+v reason %+v position %+v next %s findings %v\n", c.State, c.Desired, c.NodeCount, c.RunID, c.Request, c.Reason, c.Position, c.RecoverNext.Format(time.TimeOnly), c.Findings)
	for _, n := range record.Nodes {
		fmt.Fprintf(&b, "  node %s vm=%s ready=%s notready=%q version=%s\n", n.Name, n.VMID, n.ReadyAt.Format(time.TimeOnly), n.NotReady, n.Version)
	}
	for _, r := range record.Journal {
		fmt.Fprintf(&b, "  row %s %s %s %s by %s/%s try %d/%d job=%s intent %s closing %s %s %s\n", r.Kind, r.Name, r.Phase, r.Origin, r.RunID, r.Step, r.Attempt, r.Attempts, r.JobID,
			r.IntentAt.Format(time.TimeOnly), r.ClosingAt.Format(time.TimeOnly), r.LastCode, r.LastError)
	}
	for _, r := range cloud.All() {
		if r.Tags[cluster.TagCluster] == uuid {
			fmt.Fprintf(&b, "  resource %s %s %s %s created %s\n", r.Kind, r.Name, r.ID, r.State, r.Created.Format(time.TimeOnly))
		}
	}
	events, _ := records.Events(ctx, cluster.EventQuery{Scope: All, Cluster: uuid})
	for _, e := range events {
		fmt.Fprintf(&b, "  %s %s %s→%s %s %+v\n", e.At.Format(time.TimeOnly), e.Event, e.From, e.State, e.RunID, e.Reason)
	}
	list, _, _ := runs.List(ctx, runstore.Query{Subject: cluster.Subject(uuid), OldestFirst: true})
	for _, r := range list {
		full, _, err := runs.Load(ctx, r.ID)
		if err != nil {
			continue
		}
		fmt.Fprintf(&b, "  run %s %s %s fault %+v\n", full.ID, full.Flow, full.Phase, full.Fault)
		for s := range full.Steps() {
			fmt.Fprintf(&b, "    %s %s attempt %d wait %+v fault %+v\n", s.Name, s.Phase, s.Attempt, s.Wait, s.Fault)
		}
	}
	fmt.Fprintf(&b, "  now %s\n", time.Now().Format(time.TimeOnly))
	return b.String()
}
