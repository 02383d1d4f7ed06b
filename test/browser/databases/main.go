// Command databases is a Kubernetes cluster with FoundationDB clusters of a thousand groups, for the tests of the
// console: an API server, and objects as the operator leaves them. No operator and no database runs.
//
//	go -C test run ./browser/databases
//
// It prints a line with the path of a kubeconfig, then obeys lines of its standard input until that ends:
//
//	fail storage-17      give a group the condition MissingProcesses
//	heal storage-17      take its conditions away
//	churn 200            give conditions to this many groups, or take them away again
//	plan 7.4.6           hold another plan: its targets and its hash change
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/pawl-dev/pawl/chain"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
	fdbkube "github.com/pawl-dev/pawl/operator/foundationdb/kube"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
)

const (
	namespace = "default"
	zones     = 20
)

// sizes are the groups of the big cluster: a thousand.
var sizes = []struct {
	class fdb.Class
	n     int
}{{fdb.ClassStorage, 800}, {fdb.ClassLog, 100}, {fdb.ClassStateless, 90}, {fdb.ClassCoordinator, 9}, {fdb.ClassClusterController, 1}}

// began is when the newest thing happened that the objects tell of.
var began = time.Now().Add(-time.Hour).Truncate(time.Second)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "databases:", err)
		os.Exit(1)
	}
}

func run() (err error) {
	log.SetLogger(logr.Discard())
	plane, err := controlplane.Start(controlplane.Options{CRDs: []string{"deploy/crds", "deploy/fdb"}, Kubelet: kubelet.Options{Nodes: -1}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	scheme := runtime.NewScheme()
	if err := fdbkube.AddToScheme(scheme); err != nil {
		return err
	}
	s := stage{}
	if s.client, err = client.New(plane.Config(), client.Options{Scheme: scheme}); err != nil {
		return err
	}
	ctx := context.Background()
	if err := s.fill(ctx); err != nil {
		return err
	}
	fmt.Println(plane.Kubeconfig())
	return s.obey(ctx)
}

type stage struct{ client client.Client }

// fill creates a big cluster with a backup and a restore, one whose pods are a zone each, and a small one that is
// settled.
func (s stage) fill(ctx context.Context) error {
	big := cluster("orders", sizes[0].n)
	for i := range big.Status.ProcessGroups {
		big.Status.ProcessGroups[i].FaultDomain = fmt.Sprintf("rack-%d", i%zones)
	}
	for i, kind := range []v1beta2.ProcessGroupConditionType{v1beta2.MissingProcesses, v1beta2.PodFailing, v1beta2.IncorrectCommandLine} {
		big.Status.ProcessGroups[i].ProcessGroupConditions = []v1beta2.ProcessGroupCondition{{Type: kind, Timestamp: began.Unix()}}
	}
	leaves := &big.Status.ProcessGroups[16]
	leaves.RemovalTimestamp = &metav1.Time{Time: began}
	big.Annotations = map[string]string{foundationdb.HoldAnnotation: "UpdatePods"}
	if err := s.create(ctx, big, func(c *v1beta2.FoundationDBCluster) { c.Status.Plan = held("7.3.79") }); err != nil {
		return err
	}
	scattered := cluster("scattered", sizes[0].n)
	for i := range scattered.Status.ProcessGroups {
		g := &scattered.Status.ProcessGroups[i]
		g.FaultDomain = "scattered-" + string(g.ProcessGroupID)
	}
	small := cluster("small", 3)
	small.Spec.Version = small.Status.RunningVersion
	settled := func(c *v1beta2.FoundationDBCluster) {
		c.Status.Generations.Reconciled = c.Generation
		condition(c, "Reconciled", metav1.ConditionTrue, "Done", "the cluster is as its spec says")
		condition(c, "Progressing", metav1.ConditionFalse, "Done", "nothing is to be done")
	}
	if err := errors.Join(s.create(ctx, scattered, settled), s.create(ctx, small, settled), s.backups(ctx)); err != nil {
		return err
	}
	id := fdb.GroupID{Class: fdb.ClassStorage, Number: 17}
	labels, _ := foundationdb.Metadata(big, id)
	return s.client.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: foundationdb.PodName(big, id), Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: foundationdb.MainContainer, Image: "foundationdb:7.3.69"}}},
	})
}

// cluster is a cluster that serves, with as many groups as sizes says but for storage.
func cluster(name string, storage int) *v1beta2.FoundationDBCluster {
	c := &v1beta2.FoundationDBCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	c.Spec.Version = "7.3.79"
	c.Spec.DatabaseConfiguration.RedundancyMode = "triple"
	c.Spec.ProcessCounts = map[v1beta2.ProcessClass]int{}
	c.Status.RunningVersion, c.Status.Configured = "7.3.69", true
	c.Status.Health.Available, c.Status.Health.Healthy, c.Status.Health.FullReplication = true, true, true
	c.Status.DatabaseConfiguration = foundationdb.Effective(c.Spec).DatabaseConfiguration
	c.Status.DatabaseConfiguration.RedundancyMode = "double"
	var coordinators []string
	for _, of := range sizes {
		n := of.n
		if of.class == fdb.ClassStorage {
			n = storage
		}
		c.Spec.ProcessCounts[v1beta2.ProcessClass(of.class)] = n
		for i := range n {
			at := len(c.Status.ProcessGroups)
			address := fmt.Sprintf("10.%d.%d.%d", 1+at/60000, at/250%240, 1+at%250)
			c.Status.ProcessGroups = append(c.Status.ProcessGroups, v1beta2.ProcessGroupStatus{
				ProcessGroupID: v1beta2.ProcessGroupID(fmt.Sprintf("%s-%d", of.class, i+1)), ProcessClass: v1beta2.ProcessClass(of.class), Addresses: []string{address},
			})
			if of.class == fdb.ClassCoordinator {
				coordinators = append(coordinators, address+":4501")
			}
		}
	}
	c.Status.ConnectionString = name + ":abcdefgh@" + strings.Join(coordinators, ",")
	c.Status.DesiredProcessGroups, c.Status.ReconciledProcessGroups = len(c.Status.ProcessGroups), len(c.Status.ProcessGroups)-4
	condition(c, "Ready", metav1.ConditionTrue, "Available", "the database is configured and available")
	condition(c, "Available", metav1.ConditionTrue, "Available", "the database is available")
	condition(c, "Reconciled", metav1.ConditionFalse, "UpdatePods", "pods are not as the spec says")
	condition(c, "Progressing", metav1.ConditionTrue, chain.ReasonHeld, "UpdatePods is held: a person must let it pass")
	return c
}

func condition(c *v1beta2.FoundationDBCluster, kind string, status metav1.ConditionStatus, reason, message string) {
	c.Status.Conditions = slices.DeleteFunc(c.Status.Conditions, func(is metav1.Condition) bool { return is.Type == kind })
	c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(began)})
}

// held is a plan of which one link is held, one waits for a gate, and one acts.
func held(version string) []v1beta2.PlanEntry {
	var targets []string
	for i := range 40 {
		targets = append(targets, fmt.Sprintf("orders-storage-%d", i+1))
	}
	planned := []chain.Planned{
		{Link: "AddProcessGroups", Acts: []chain.PlannedAct{{Name: "create group", Targets: []string{"log-101"}}}},
		{Link: "UpdateDatabaseConfiguration", Outcome: outcome.Wait(5*time.Minute, fdb.RecoveredRecently, "the last recovery was 1 min ago"), Opens: 5 * time.Minute},
		{Link: "ExcludeProcesses", Acts: []chain.PlannedAct{{Name: "exclude", Targets: []string{"storage-17"}}}, Behind: "UpdateDatabaseConfiguration"},
		{Link: "UpdatePods", Acts: []chain.PlannedAct{{Name: "recreate with " + version, Targets: targets}}, Held: true},
	}
	return clusters.Entries(planned, nil, foundationdb.PlanHash(planned), time.Now())
}

// create creates a cluster and writes its status, as the operator does.
func (s stage) create(ctx context.Context, c *v1beta2.FoundationDBCluster, change func(*v1beta2.FoundationDBCluster)) error {
	status := c.Status
	if err := s.client.Create(ctx, c); err != nil {
		return err
	}
	c.Status = status
	change(c)
	return s.client.Status().Update(ctx, c)
}

func (s stage) backups(ctx context.Context) error {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "nightly"}
	store := &v1beta2.BlobStoreConfiguration{AccountName: "account@object-store.example", BackupName: "nightly"}
	b := &v1beta2.FoundationDBBackup{ObjectMeta: meta, Spec: v1beta2.FoundationDBBackupSpec{Version: "7.3.69", ClusterName: "orders", BlobStoreConfiguration: store}}
	r := &v1beta2.FoundationDBRestore{ObjectMeta: meta, Spec: v1beta2.FoundationDBRestoreSpec{DestinationClusterName: "orders", BlobStoreConfiguration: store}}
	if err := errors.Join(s.client.Create(ctx, b), s.client.Create(ctx, r)); err != nil {
		return err
	}
	b.Status.AgentCount = 2
	b.Status.BackupDetails = &v1beta2.BackupDetails{URL: "blobstore://account:secret@object-store.example/nightly?bucket=fdb-backups", Running: true, Restorable: true, SnapshotTime: 864000}
	b.Status.Generations.Reconciled = b.Generation
	r.Status.State, r.Status.Tag, r.Status.StartedAt = "completed", "restore-1", &metav1.Time{Time: began}
	return errors.Join(s.client.Status().Update(ctx, b), s.client.Status().Update(ctx, r))
}

// change changes the status of the big cluster.
func (s stage) change(ctx context.Context, change func(c *v1beta2.FoundationDBCluster) error) error {
	c := &v1beta2.FoundationDBCluster{}
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "orders"}, c); err != nil {
		return err
	}
	if err := change(c); err != nil {
		return err
	}
	return s.client.Status().Update(ctx, c)
}

// obey does what standard input says until it ends.
func (s stage) obey(ctx context.Context) error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		verb, what, _ := strings.Cut(lines.Text(), " ")
		if err := s.change(ctx, func(c *v1beta2.FoundationDBCluster) error { return act(c, verb, what) }); err != nil {
			return fmt.Errorf("%s: %w", lines.Text(), err)
		}
	}
	return lines.Err()
}

func act(c *v1beta2.FoundationDBCluster, verb, what string) error {
	failing := []v1beta2.ProcessGroupCondition{{Type: v1beta2.MissingProcesses, Timestamp: time.Now().Unix()}}
	groups := c.Status.ProcessGroups
	switch verb {
	case "fail", "heal":
		i := slices.IndexFunc(groups, func(g v1beta2.ProcessGroupStatus) bool { return string(g.ProcessGroupID) == what })
		if i < 0 {
			return errors.New("there is no such group")
		}
		groups[i].ProcessGroupConditions = nil
		if verb == "fail" {
			groups[i].ProcessGroupConditions = failing
		}
	case "churn":
		var n int
		if _, err := fmt.Sscan(what, &n); err != nil {
			return err
		}
		for i := 100; i < min(100+n, len(groups)); i++ {
			if g := &groups[i]; len(g.ProcessGroupConditions) > 0 {
				g.ProcessGroupConditions = nil
			} else {
				g.ProcessGroupConditions = failing
			}
		}
	case "plan":
		c.Status.Plan = held(what)
	default:
		return errors.New("no command: fail GROUP, heal GROUP, churn N, plan VERSION")
	}
	return nil
}
