package foundationdb

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/foundationdb/report"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	fdbkube "github.com/pawl-dev/pawl/operator/foundationdb/kube"
	"github.com/pawl-dev/pawl/operator/foundationdb/repair"
)

// running are the pods of a cluster in which programs can be run, by name.
func running(pods map[v1beta2.ProcessGroupID]*corev1.Pod) []*corev1.Pod {
	var found []*corev1.Pod
	for _, pod := range pods {
		if pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil {
			found = append(found, pod)
		}
	}
	slices.SortFunc(found, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// silent tells how the database was found: nothing if a majority of its coordinators is reached, which is no case for
// a repair.
func silent(f report.Facts) (found string, err error) {
	quorum := f.Status != nil && f.Status.Client.Coordinators.QuorumReachable != nil && *f.Status.Client.Coordinators.QuorumReachable
	switch {
	case quorum:
		return "", RepairNotNeeded.Errorf("%s: a majority of the coordinators is reached", nameOf(f.Cluster))
	case f.Status != nil:
		return "found: no majority of the coordinators is reached", nil
	case f.Cluster.Status.Health.Available:
		return "", RepairNotNeeded.Errorf("%s: the object says that the database is available, and it could not be asked: %s", nameOf(f.Cluster), cmp.Or(oneLine(f.Silence), "files have none"))
	}
	return "found: the object says that the database is not available; " + cmp.Or(oneLine(f.Silence), "it was not asked"), nil
}

// inShell runs a command in the main container of a pod. It fails with Unreachable when it has not ended with 0.
func (s *source) inShell(ctx context.Context, pod *corev1.Pod, in []byte, command ...string) ([]byte, error) {
	var out, errOut bytes.Buffer
	e := backend.Exec{Namespace: pod.Namespace, Pod: pod.Name, Container: foundationdb.MainContainer, Command: command, Out: &out, Err: &errOut}
	if in != nil {
		e.In = bytes.NewReader(in)
	}
	code, err := s.exec(ctx, e)
	switch {
	case err != nil:
		return nil, Unreachable.Errorf("pod %s: %s", pod.Name, fault.Message(err))
	case code != 0:
		return nil, Unreachable.Errorf("pod %s: %s ended with %d: %.256s", pod.Name, command[0], code, oneLine(errOut.String()+out.String()))
	}
	return out.Bytes(), nil
}

// rewrite is the step that writes a connection string into the cluster files of pods. All are tried.
func (s *source) rewrite(to fdb.Connection, pods []*corev1.Pod) step {
	return step{"write the cluster file of " + cli.CountText(len(pods), "pod"), func(ctx context.Context) (string, error) {
		var failed []string
		for _, pod := range pods {
			if _, err := s.inShell(ctx, pod, nil, fdbkube.ClusterFileCommand(to)...); err != nil {
				failed = append(failed, fault.Message(err))
			}
		}
		if len(failed) > 0 {
			return "", Unreachable.Errorf("the cluster file was not written in %s of %d: %s", cli.CountText(len(failed), "pod"), len(pods), strings.Join(failed, "; "))
		}
		return cli.CountText(len(pods), "pod") + " have it, and their servers restart", nil
	}}
}

// record are the steps that write a connection string to the status of a cluster and to its config map.
func (s *source) record(c *v1beta2.FoundationDBCluster, to fdb.Connection) []step {
	return []step{
		{"write the status of the cluster", func(ctx context.Context) (string, error) {
			changed := c.DeepCopy()
			changed.Status.ConnectionString = to.String()
			return "the status has it", s.kube.Status().Patch(ctx, changed, client.MergeFrom(c))
		}},
		{"write the config map", func(ctx context.Context) (string, error) {
			m := &corev1.ConfigMap{}
			m.Namespace, m.Name = c.Namespace, c.Name+"-config"
			err := s.kube.Get(ctx, client.ObjectKeyFromObject(m), m)
			if apierrors.IsNotFound(err) || fault.Of(err) == control.NotFound {
				return "there is no config map " + m.Name + ": the operator makes it", nil
			}
			if err != nil {
				return "", err
			}
			changed := m.DeepCopy()
			if changed.Data == nil {
				changed.Data = map[string]string{}
			}
			changed.Data[foundationdb.ClusterFileKey] = to.String()
			return m.Name + " has it", s.kube.Patch(ctx, changed, client.MergeFrom(m))
		}},
	}
}

func (a verbs) fixCoordinatorIPsCommand() *cobra.Command {
	var w where
	var how cli.Confirmation
	cmd := a.verb("fix-coordinator-ips [CLUSTER]", "Write the new addresses of coordinators into all pods, when a majority has moved",
		"  pawl fdb fix-coordinator-ips orders --dry-run\n  pawl fdb fix-coordinator-ips orders -y", cobra.MaximumNArgs(1),
		func(ctx context.Context, args []string) error {
			return a.repair(ctx, w, optional(args), how, fixCoordinatorIPs)
		})
	cmd.Long = `A cluster file that holds IPs leads nowhere when the pods of a majority of the coordinators
have got other ones: no server finds the others, and the database stays away. This verb finds
each coordinator by the group that had its address, writes the connection string with the
addresses of now into the cluster file of every pod, restarts the servers there, and writes
it to the status of the cluster and to its config map.

It is refused while a majority of the coordinators is reached, when a coordinator is on no
pod that runs, and when other objects hold parts of the database. pawl operator does the same
by itself with --fdb-fix-coordinator-ips.`
	w.namespaceFlag(cmd)
	w.objectsFlag(cmd)
	w.statusFlag(cmd)
	how.AddFlags(cmd)
	return cmd
}

// repair carries out a change that follows from what was found of a cluster.
func (a verbs) repair(ctx context.Context, w where, name string, how cli.Confirmation, judge func(s *source, f report.Facts) (change, error)) error {
	s, err := a.open(ctx, w)
	if err != nil {
		return err
	}
	defer s.Close()
	c, err := s.cluster(ctx, name)
	if err != nil {
		return err
	}
	what, err := judge(s, s.facts(ctx, c, true))
	if err != nil {
		return err
	}
	return a.carryOut(ctx, s, []change{what}, how)
}

// fixCoordinatorIPs says where the coordinators are, and gives all servers their new addresses.
func fixCoordinatorIPs(s *source, f report.Facts) (change, error) {
	c := f.Cluster
	found, err := silent(f)
	if err != nil {
		return change{}, err
	}
	moved, err := repair.MovedCoordinators(c, func(id v1beta2.ProcessGroupID) *corev1.Pod { return f.Pods[id] })
	if err != nil {
		return change{}, err
	}
	elsewhere := moved.Elsewhere()
	switch {
	case !moved.Majority():
		return change{}, RepairNotNeeded.Errorf("%s: %d of %d coordinators have other addresses, and servers find each other by the others", nameOf(c), len(elsewhere), len(moved.Groups))
	case foundationdb.SharesDatabase(c.Spec):
		return change{}, DatabaseShared.Errorf("%s holds only a part of its database; with the addresses of now the connection string is %s", nameOf(c), moved.To)
	}
	pods := running(f.Pods)
	what := change{object: shown(c, report.ClusterKind), found: []string{found}}
	for i, was := range moved.From.Coordinators {
		now := "which is still there"
		if moved.To.Coordinators[i] != was {
			now = "which is now " + moved.To.Coordinators[i].String()
		}
		what.found = append(what.found, fmt.Sprintf("found: coordinator %s is %s, %s", was, moved.Groups[i], now))
	}
	what.does = []string{
		fmt.Sprintf("write %s into the cluster file of %s, and restart the servers there", moved.To, cli.CountText(len(pods), "pod")),
		"write it to the status of the cluster and to its config map",
	}
	what.lost = []string{"nothing that was written: coordinators keep what they know, also at other addresses"}
	if absent := len(c.Status.ProcessGroups) - len(pods); absent > 0 {
		what.does = append(what.does, cli.CountText(absent, "group")+" without a pod that runs: one that comes back with the old file is replaced by the operator")
	}
	what.steps = append([]step{s.rewrite(moved.To, pods)}, s.record(c, moved.To)...)
	return what, nil
}

func (a verbs) updateCommand() *cobra.Command {
	group := &cobra.Command{Use: "update", Short: "Write a part of a cluster by hand", Example: "  pawl fdb update connection-string orders --file fdb.cluster"}
	group.AddCommand(a.updateConnectionCommand())
	return group
}

// connecting is what a connection string is written for.
type connecting struct {
	file        string
	pods, force bool
}

func (a verbs) updateConnectionCommand() *cobra.Command {
	var w where
	var how cli.Confirmation
	var o connecting
	cmd := a.verb("connection-string CLUSTER STRING | CLUSTER --file FILE", "Write another connection string to the status and the config map of a cluster",
		"  pawl fdb update connection-string orders 'orders:abc@10.1.0.4:4501,10.1.0.5:4501,10.1.0.6:4501'\n  pawl fdb update connection-string orders --file fdb.cluster --pods --dry-run",
		cobra.RangeArgs(1, 2), func(ctx context.Context, args []string) error {
			if (len(args) == 2) == (o.file != "") {
				return cli.Usage.Errorf("give the connection string, or a cluster file with --file")
			}
			text := args[len(args)-1]
			if o.file != "" {
				data, err := cli.ReadInput(o.file, a.In)
				if err != nil {
					return err
				}
				text = string(data)
			}
			to, err := fdb.ParseConnection(text)
			if err != nil {
				return err
			}
			return a.repair(ctx, w, args[0], how, func(s *source, f report.Facts) (change, error) { return reconnect(s, f, to, o) })
		})
	cmd.Long = `The operator and the pods that it makes from now on find the database by this string. With
--pods it is also written into the cluster file of every pod that runs, and the servers there
restart: they read it only then.

While the database answers, the operator takes over the string that the database itself has.
A string with another description than the cluster has is that of another database, and is
refused without --force.`
	w.namespaceFlag(cmd)
	w.objectsFlag(cmd)
	w.statusFlag(cmd)
	cmd.Flags().StringVar(&o.file, "file", "", "`file` with the connection string, as fdb.cluster; - for standard input")
	cmd.Flags().BoolVar(&o.pods, "pods", false, "also write it into the pods, and restart the servers there")
	cmd.Flags().BoolVar(&o.force, "force", false, "also one of another description")
	_ = cmd.MarkFlagFilename("file")
	how.AddFlags(cmd)
	return cmd
}

// reconnect says how a connection string differs from the one of a cluster, and writes it.
func reconnect(s *source, f report.Facts, to fdb.Connection, o connecting) (change, error) {
	c := f.Cluster
	what := change{object: shown(c, report.ClusterKind), found: []string{"found: " + cmp.Or(c.Status.ConnectionString, "no connection string")}}
	description := cmp.Or(c.Spec.PartialConnectionString.DatabaseName, fdb.Describe(c.Name))
	if from, err := fdb.ParseConnection(c.Status.ConnectionString); err == nil {
		description = from.Description
		if from.ID != to.ID && from.Description == to.Description {
			what.found = append(what.found, "found: another id, as after a change of coordinators")
		}
	}
	if description != to.Description && !o.force {
		return change{}, ConnectionForeign.Errorf("%s is the database %s, and the string that of %s", nameOf(c), description, to.Description)
	}
	if f.Status != nil && f.Status.Cluster.ConnectionString != "" {
		live := "found: the database itself says " + f.Status.Cluster.ConnectionString
		if live != "found: the database itself says "+to.String() {
			live += ", which the operator takes over again"
		}
		what.found = append(what.found, live)
	}
	what.does = []string{"write " + to.String() + " to the status of the cluster and to its config map"}
	what.lost = []string{"the way to the database, if the string is wrong: the operator and new pods look for it there"}
	what.steps = s.record(c, to)
	if pods := running(f.Pods); o.pods {
		what.does = append(what.does, fmt.Sprintf("then write it into the cluster file of %s, and restart the servers there", cli.CountText(len(pods), "pod")))
		what.lost = append(what.lost, "the availability of the database for some seconds")
		what.steps = append(what.steps, s.rewrite(to, pods))
	}
	return what, nil
}
