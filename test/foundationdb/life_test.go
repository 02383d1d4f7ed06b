package foundationdb_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
	"github.com/pawl-dev/pawl/operator/foundationdb/kube"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/deploy"
	"github.com/pawl-dev/pawl/test/foundationdb"
)

// life is a database with pods that are processes, from its manifest to its deletion.
type life struct {
	*testing.T
	plane       *controlplane.Plane
	environment *foundationdb.Environment
	operator    *foundationdb.Operator
	namespace   string
	admin       client.Client // with all rights, and no cache
	name        string        // of the cluster
	connection  string        // the last one known
	cordoned    string        // a node
	more        int           // recoveries of a step, by where its pods happen to be
	told        int           // lines of the transcript
	violated    int           // violations that were told
}

func newLife(t *testing.T, o foundationdb.Options) *life {
	t.Helper()
	l := &life{T: t, plane: suite.Plane(t)}
	scheme := runtime.NewScheme()
	l.must(kube.AddToScheme(scheme))
	l.must(corev1.AddToScheme(scheme))
	l.must(appsv1.AddToScheme(scheme))
	l.must(rbacv1.AddToScheme(scheme))
	var err error
	l.admin, err = client.New(l.plane.Config(), client.Options{Scheme: scheme})
	l.must(err)
	o.Model.ShardBytes = 2 << 20
	l.environment, err = foundationdb.Start(t.Context(), l.plane, nodeName(t), o)
	l.must(err)
	t.Cleanup(func() { l.must(l.environment.Close(context.Background())) })
	l.namespace = l.plane.Namespace(t)
	return l
}

func nodeName(t *testing.T) string {
	return strings.ToLower(strings.TrimPrefix(strings.ReplaceAll(t.Name(), "/", "-"), "Test"))
}

func (l *life) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

// account is whom `pawl operator` acts as.
const account = "pawl-operator"

// processRules are the rights of `pawl operator` beside those of its operators, as the chart gives them
// (deploy/chart/templates/_rules.tpl).
var processRules = []rbacv1.PolicyRule{
	{APIGroups: []string{"pawl.dev"}, Resources: []string{"runs"}, Verbs: []string{"get", "list", "watch", "create", "patch", "delete"}},
	{APIGroups: []string{"pawl.dev"}, Resources: []string{"runs/status"}, Verbs: []string{"patch"}},
	{APIGroups: []string{"pawl.dev"}, Resources: []string{"runhistories"}, Verbs: []string{"list", "create", "deletecollection"}},
	{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get", "list", "watch", "create", "update", "delete"}},
	{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, Verbs: []string{"get", "list", "watch", "create", "update", "patch", "delete"}},
	{APIGroups: []string{"events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch"}},
	{APIGroups: []string{""}, Resources: []string{"events"}, Verbs: []string{"create"}},
	{APIGroups: []string{"apiextensions.k8s.io"}, Resources: []string{"customresourcedefinitions"}, Verbs: []string{"list", "watch"}},
}

// role gives the operator its rights and returns the kubeconfig of its account. That nothing was refused to it is checked
// when the test ends.
func (l *life) role() (kubeconfig string) {
	l.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: account}, Rules: slices.Concat(kube.Rules(), kube.NodeRules(), processRules)}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: account}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: account},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: account}}}
	for _, object := range []client.Object{role, binding} {
		if err := l.admin.Create(l.Context(), object); !apierrors.IsAlreadyExists(err) {
			l.must(err)
		}
	}
	_, kubeconfig, err := l.plane.User(account)
	l.must(err)
	l.Cleanup(func() {
		requests, err := l.plane.Requests()
		l.must(err)
		for _, r := range deploy.Refused(requests) {
			if r.User.Username == account && r.Object.Namespace == l.namespace {
				l.Errorf("refused: %s", r)
			}
		}
	})
	return kubeconfig
}

// operate starts the operator, which ends before the nodes do.
func (l *life) operate(flags ...string) {
	l.Helper()
	var err error
	flags = slices.Concat(foundationdb.QuickFlags, []string{"--lease", "1m"}, flags) // on a busy machine it would not be renewed in time
	l.operator, err = l.environment.StartOperator(l.role(), l.namespace, flags...)
	l.must(err)
	l.Cleanup(func() {
		if l.Failed() {
			l.tell()
		}
		if err := l.operator.Stop(context.Background()); err != nil {
			l.Error(err)
		}
	})
}

// apply applies a manifest as it is.
func (l *life) apply(file string) {
	l.Helper()
	text, err := os.ReadFile(file)
	l.must(err)
	if out, err := kubectl(l.T, l.namespace, string(text), "apply", "-f", "-"); err != nil {
		l.Fatalf("kubectl apply -f %s: %v\n%s", file, err, out)
	}
}

// sample returns the path of a published manifest, or skips the test.
func sample(t *testing.T, path string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(published, "*", path))
	if err != nil || len(found) == 0 {
		t.Skipf("there is no %s/*/%s", published, path)
	}
	return found[len(found)-1]
}

func (l *life) cluster() *v1beta2.FoundationDBCluster {
	l.Helper()
	c := &v1beta2.FoundationDBCluster{}
	l.must(l.admin.Get(l.Context(), client.ObjectKey{Namespace: l.namespace, Name: l.name}, c))
	if c.Status.ConnectionString != "" {
		l.connection = c.Status.ConnectionString
	}
	return c
}

// change changes the cluster, as its user does.
func (l *life) change(change func(*v1beta2.FoundationDBClusterSpec)) {
	l.Helper()
	c := l.cluster()
	before := c.DeepCopy()
	change(&c.Spec)
	l.must(l.admin.Patch(l.Context(), c, client.MergeFrom(before)))
}

// until polls until look returns no error.
func (l *life) until(what string, within time.Duration, look func() error) {
	l.Helper()
	began := time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := look()
		if err == nil {
			l.Logf("%s after %s", what, time.Since(began).Round(100*time.Millisecond))
			return
		}
		if l.operator != nil {
			if ended := l.operator.Check(); ended != nil {
				l.Fatalf("%s: %v", what, ended)
			}
		}
		if time.Since(began) > within {
			l.Fatalf("%s: not within %s: %v", what, within, err)
		}
		<-tick.C
	}
}

// reconciled waits until the cluster is as its spec says, and the database is healthy.
func (l *life) reconciled(what string, within time.Duration) {
	l.Helper()
	l.until(what, within, func() error {
		c := l.cluster()
		ready := meta.FindStatusCondition(c.Status.Conditions, clusters.TypeReconciled)
		switch {
		case ready == nil || ready.Status != metav1.ConditionTrue:
			return fmt.Errorf("%v, plan %v", ready, c.Status.Plan)
		case c.Status.Generations.Reconciled != c.Generation || ready.ObservedGeneration != c.Generation:
			return fmt.Errorf("generation %d is reconciled, want %d", c.Status.Generations.Reconciled, c.Generation)
		}
		return nil
	})
}

// database asks the database itself.
func (l *life) database(ask func(*sim.Cluster)) {
	l.Helper()
	l.must(l.environment.Do(l.connection, ask))
}

// status reads the status document of the database.
func (l *life) status(read func(*fdb.Status)) {
	l.Helper()
	var document []byte
	l.database(func(d *sim.Cluster) { document = d.Status(d.Connection(), d.Protocol()) })
	s, err := fdb.ParseStatus(document)
	l.must(err)
	read(s)
}

// write has a client write all the while, fifty times a second.
func (l *life) write(versions ...string) {
	l.Helper()
	c := sim.Client{Address: writer, LogGroup: "writer", Writes: 20 * time.Millisecond}
	for _, text := range versions {
		v, err := fdb.ParseVersion(text)
		l.must(err)
		c.Versions = append(c.Versions, v)
	}
	l.database(func(d *sim.Cluster) { d.Connect(c) })
	l.until("written to", time.Minute, func() (err error) {
		l.database(func(d *sim.Cluster) {
			if d.Written(writer).Acknowledged == 0 {
				err = errors.New("no key is acknowledged")
			}
		})
		return err
	})
}

const writer = "127.0.0.1:9999"

// judge asks what has become of the client's keys, and how many recoveries the operator has caused by its tools: so many,
// or up to more. Those of pods that it deletes are not known to be its own.
func (l *life) judge(recoveries, more int) {
	l.Helper()
	l.database(func(d *sim.Cluster) {
		lines := d.Transcript()
		l.Logf("the database:\n%s", strings.Join(lines[min(l.told, len(lines)):], "\n"))
		l.told = len(lines)
		violations := d.Violations()
		for _, v := range violations[l.violated:] {
			l.Errorf("violated: %s", v)
		}
		l.violated = len(violations)
		if w := d.Written(writer); len(w.Missing) > 0 || w.Acknowledged == 0 {
			l.Errorf("%d of %d acknowledged keys are missing", len(w.Missing), w.Acknowledged)
		} else {
			l.Logf("%d keys acknowledged and there; the longest gap was %s", w.Acknowledged, w.Gap.Round(time.Millisecond))
		}
		if caused := d.CausedRecoveries(); caused < recoveries || caused > recoveries+more {
			l.Errorf("the operator has caused %d recoveries, want %d, or up to %d more", caused, recoveries, more)
		}
	})
}

// remove deletes the cluster and waits until nothing of it is left: objects, processes, volumes.
func (l *life) remove() {
	l.Helper()
	l.deleted()
	l.gone()
}

// deleted deletes the cluster.
func (l *life) deleted() {
	l.Helper()
	if out, err := kubectl(l.T, l.namespace, "", "delete", "fdb", l.name, "--wait=false"); err != nil {
		l.Fatalf("kubectl delete: %v\n%s", err, out)
	}
}

// gone waits until nothing is left of the clusters that were deleted.
func (l *life) gone() {
	l.Helper()
	l.until("deleted", 2*time.Minute, func() error {
		var left []string
		lists := []client.ObjectList{
			&v1beta2.FoundationDBClusterList{}, &corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &corev1.ServiceList{}, &corev1.ConfigMapList{}, &appsv1.DeploymentList{},
		}
		for _, list := range lists {
			if err := l.admin.List(l.Context(), list, client.InNamespace(l.namespace)); err != nil {
				return err
			}
			_ = meta.EachListItem(list, func(o runtime.Object) error {
				if m := o.(client.Object); !foreign(m) {
					left = append(left, fmt.Sprintf("%T %s", o, m.GetName()))
				}
				return nil
			})
		}
		volumes := &corev1.PersistentVolumeList{}
		if err := l.admin.List(l.Context(), volumes); err != nil {
			return err
		}
		for _, v := range volumes.Items {
			if v.Spec.ClaimRef != nil && v.Spec.ClaimRef.Namespace == l.namespace {
				left = append(left, "volume "+v.Name)
			}
		}
		if n := l.environment.Kubelet.Pods(l.namespace); n > 0 {
			left = append(left, fmt.Sprintf("the processes of %d pods", n))
		}
		if len(left) > 0 {
			return errors.New(strings.Join(left, ", "))
		}
		return nil
	})
}

// foreign reports objects that Kubernetes and the operator's own runs have in a namespace.
func foreign(o client.Object) bool {
	return o.GetName() == "kube-root-ca.crt" || strings.HasPrefix(o.GetName(), "pawl-")
}

// tell tells what is known about a life that went wrong.
func (l *life) tell() {
	c := &v1beta2.FoundationDBCluster{}
	err := l.admin.Get(context.Background(), client.ObjectKey{Namespace: l.namespace, Name: l.name}, c)
	if err != nil {
		l.Log(err)
	}
	for _, condition := range c.Status.Conditions {
		l.Logf("condition %s=%s %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message)
	}
	for _, g := range c.Status.ProcessGroups {
		l.Logf("group %s %v %v removed %v excluded %v", g.ProcessGroupID, g.Addresses, g.ProcessGroupConditions, g.RemovalTimestamp, g.ExclusionTimestamp)
	}
	for _, p := range c.Status.Plan {
		l.Logf("plan %+v", p)
	}
	pods := &corev1.PodList{}
	if err := l.admin.List(context.Background(), pods, client.InNamespace(l.namespace)); err == nil {
		for _, p := range pods.Items {
			l.Logf("pod %s %s %s", p.Name, p.Status.Phase, p.Spec.NodeName)
			for _, s := range p.Status.ContainerStatuses {
				l.Logf("  %s %s restarts %d: %+v", s.Name, s.Image, s.RestartCount, s.State)
			}
		}
	}
	if l.connection != "" {
		_ = l.environment.Do(l.connection, func(d *sim.Cluster) {
			lines := d.Transcript()
			l.Logf("the database, unhealthy: %q\n%s", d.Unhealthy(), strings.Join(lines[max(0, len(lines)-80):], "\n"))
			for _, v := range d.Violations() {
				l.Logf("violated: %s", v)
			}
		})
	}
	if l.operator != nil {
		l.Logf("the operator:\n%s", l.operator.Tail())
	}
}
