package foundationdb

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/foundationdb/report"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/repair"
)

func (a verbs) recoverCommand() *cobra.Command {
	var w where
	var how cli.Confirmation
	limit := 10 * time.Minute
	cmd := a.verb("recover-multi-region-cluster CLUSTER", "Go on in one data center, with loss of data, when a majority of the coordinators is lost for good",
		"  pawl fdb recover-multi-region-cluster orders-dc2 --dry-run\n  pawl fdb recover-multi-region-cluster orders-dc2 -y", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error {
			return a.repair(ctx, w, args[0], how, func(s *source, f report.Facts) (change, error) { return recoverRegion(s, f, limit) })
		})
	cmd.Long = `The last resort for a database of several regions of which a majority of the coordinators is
gone and does not come back. The database goes on in the data center of CLUSTER: the operator
rests, the spec gets one region, the files of a coordinator that is left are copied to new
ones, all servers get the new cluster file, and the recovery is forced. Commits that had not
arrived in this data center are lost.

Before you call it, delete the objects and pods of the other data centers, and see that none
of their servers runs: those that come back would be a second database with the same name.

It is refused while a majority of the coordinators is reached, and when none is left in this
data center. A call that has failed in between is called again; it goes on where it was.`
	w.namespaceFlag(cmd)
	w.objectsFlag(cmd)
	w.statusFlag(cmd)
	cmd.Flags().DurationVar(&limit, "limit", limit, "how long the database may take to answer, once before and once after the recovery")
	how.AddFlags(cmd)
	return cmd
}

// recoverRegion says what a recovery in one data center does and loses, and does it.
func recoverRegion(s *source, f report.Facts, limit time.Duration) (change, error) {
	c := f.Cluster
	if f.Status == nil {
		return change{}, Unreachable.Errorf("only the database itself can say that a majority of its coordinators is lost: %s", oneLine(f.Silence))
	}
	pods := running(f.Pods)
	r, err := repair.RecoverRegion(c, func(id v1beta2.ProcessGroupID) *corev1.Pod { return f.Pods[id] })
	if err != nil {
		return change{}, err
	}
	written := r.Begun && len(r.New) == 0 && len(r.Kept) == len(r.From.Coordinators) // the last attempt came that far
	available := f.Status.Client.DatabaseStatus.Available
	switch _, err := silent(f); {
	case err != nil && (!written || available == nil || *available):
		return change{}, err
	case err == nil && !written && len(r.From.Coordinators)-len(r.Kept) <= len(r.From.Coordinators)/2:
		return change{}, RepairNotNeeded.Errorf("%s: %d of %d coordinators are left: wait until they find each other", nameOf(c), len(r.Kept), len(r.From.Coordinators))
	}
	dc := c.Spec.DataCenter
	what := change{
		object: shown(c, report.ClusterKind),
		found: []string{
			fmt.Sprintf("found: %s of %d left in data center %s: %s", cli.CountText(len(r.Kept), "coordinator"), len(r.From.Coordinators), dc, joined(r.Kept)),
		},
		lost: []string{
			"what was committed and had not arrived in data center " + dc,
			"the database as a whole, if servers of other data centers still run or come back: they must be gone for good",
			"what the lost coordinators knew and " + string(r.Kept[0]) + " did not",
		},
	}
	do := func(does, name string, act func(ctx context.Context) (string, error)) {
		what.does = append(what.does, does)
		what.steps = append(what.steps, step{name, act})
	}
	if written {
		what.found = append(what.found, "found: an attempt before has written the connection string, and goes on")
	} else {
		do("set spec.skip, so that the operator rests", "spec.skip", s.editing(c, "the operator rests", func(spec map[string]any) { spec["skip"] = true }))
		do(fmt.Sprintf("leave only data center %s in spec.databaseConfiguration, and no seed connection string", dc), "the configuration",
			s.editing(c, "the spec has one region", func(spec map[string]any) { oneRegion(spec, dc) }))
		if len(r.New) > 0 {
			do(fmt.Sprintf("copy what coordinator %s knows to %s", r.Kept[0], joined(r.New)), "the coordination files", s.copyCoordination(f.Pods[r.Kept[0]], podsOf(f, r.New)))
		}
		do("write "+r.To.String()+" to the status and to the config map", "the status", s.record(c, r.To)[0].do)
		what.steps = append(what.steps, s.record(c, r.To)[1])
	}
	rewrite := s.rewrite(r.To, pods)
	do("write it into the cluster file of "+cli.CountText(len(pods), "pod")+", and restart the servers there", rewrite.name, rewrite.do)
	do("wait until a majority of the coordinators is reached", "the coordinators", s.awaiting(f, limit, "the coordinators are reached", func(d *fdb.Status) bool {
		return d.Client.Coordinators.QuorumReachable != nil && *d.Client.Coordinators.QuorumReachable
	}))
	do(fdb.ForceRecovery(dc).Text(), "the recovery", s.call(f, fdb.ForceRecovery(dc), "the recovery was forced"))
	do("wait until the database is available", "the database", s.awaiting(f, limit, "the database is available", func(d *fdb.Status) bool {
		return d.Client.DatabaseStatus.Available != nil && *d.Client.DatabaseStatus.Available
	}))
	do("take spec.skip away: the operator goes on", "spec.skip", s.editing(c, "the operator goes on", func(spec map[string]any) { delete(spec, "skip") }))
	return what, nil
}

// oneRegion leaves one data center in the configuration of a spec.
func oneRegion(spec map[string]any, dc string) {
	configuration := inside(spec, "databaseConfiguration")
	configuration["usable_regions"] = 1
	configuration["regions"] = []any{map[string]any{"datacenters": []any{map[string]any{"id": dc, "priority": 1}}}}
	delete(spec, "seedConnectionString")
}

func podsOf(f report.Facts, ids []v1beta2.ProcessGroupID) (pods []*corev1.Pod) {
	for _, id := range ids {
		pods = append(pods, f.Pods[id])
	}
	return pods
}

// editing is a step that changes the spec of a cluster.
func (s *source) editing(c *v1beta2.FoundationDBCluster, done string, change func(spec map[string]any)) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		_, err := control.Modify(ctx, s.objects, refOf(c, report.ClusterKind), func(o *control.Object) error {
			return editSpec(o, func(_ *control.Object, spec map[string]any) error {
				change(spec)
				return nil
			})
		})
		return done, err
	}
}

// What a coordinator knows is in two files of its data folder: the disk queue coordination- (coordinationServer in
// fdbserver/Coordination.actor.cpp at 7.1.67, 7.3.69 and 7.4.6).
var coordinationFiles = []string{"coordination-0.fdq", "coordination-1.fdq"}

const (
	findCoordination = `find "$1" -type f -name "$2" -print -quit`
	readFile         = `cat "$1"`
	writeFile        = `mkdir -p "$(dirname "$1")" && cat > "$1.new" && mv "$1.new" "$1"`
)

// copyCoordination is the step that gives new coordinators what one that is left knows.
func (s *source) copyCoordination(from *corev1.Pod, to []*corev1.Pod) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		found, err := s.inShell(ctx, from, nil, "sh", "-c", findCoordination, "sh", "/var/fdb/data", coordinationFiles[0])
		if err != nil {
			return "", err
		}
		folder := path.Dir(string(bytes.TrimSpace(found)))
		if folder == "." {
			return "", Unreachable.Errorf("pod %s has no %s below /var/fdb/data", from.Name, coordinationFiles[0])
		}
		for _, name := range coordinationFiles {
			content, err := s.inShell(ctx, from, nil, "sh", "-c", readFile, "sh", path.Join(folder, name))
			if err != nil {
				return "", err
			}
			if len(content) == 0 {
				return "", Unreachable.Errorf("%s in pod %s is empty", name, from.Name)
			}
			for _, pod := range to {
				if _, err := s.inShell(ctx, pod, content, "sh", "-c", writeFile, "sh", path.Join(repair.DataFolder(pod), name)); err != nil {
					return "", err
				}
			}
		}
		return cli.CountText(len(to), "new coordinator") + " told what " + from.Name + " knows", nil
	}
}

// awaiting is a step that looks at the database until it is as it should be.
func (s *source) awaiting(f report.Facts, limit time.Duration, done string, is func(*fdb.Status) bool) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		end := time.Now().Add(limit)
		for {
			status, err := s.readStatus(ctx, f.Cluster, f.Pods)
			if err == nil && is(status) {
				return done, nil
			}
			if time.Now().After(end) {
				return "", RepairUnfinished.Errorf("not within %s", limit)
			}
			select {
			case <-ctx.Done():
				return "", ctx.Err()
			case <-time.After(min(watchPause, limit)):
			}
		}
	}
}
