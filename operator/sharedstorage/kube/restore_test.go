package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/lease"
)

// restoreFixture is a cluster with a writer, a reader and a manager, and records the reports.
type restoreFixture struct {
	*fixture
	reports []string
}

func newRestoreFixture(t *testing.T) *restoreFixture {
	t.Helper()
	owner := &v1alpha1.SharedStorageCluster{ObjectMeta: metav1.ObjectMeta{Namespace: blue.Namespace, Name: blue.Name, UID: types.UID(blue.UID)}}
	g := &restoreFixture{fixture: newFixture(t, owner)}
	g.ensure(port.Volume{Size: gi})
	for name, kind := range map[string]port.Type{"blue-1-a": port.Writer, "blue-2-b": port.Reader} {
		g.instance(name, kind)
		g.bind(name, "1Gi")
		g.start(blue, name, corev1.PodRunning)
	}
	g.must(g.Storage().Grant(t.Context(), blue, "blue-1-a", 3))
	_, err := (&Managers{g.Placement}).Ensure(t.Context(), blue, port.ManagerSpec{Present: true})
	g.must(err)
	g.put()
	g.reports = nil
	return g
}

func (g *restoreFixture) put() {
	g.t.Helper()
	report := func(reason, format string, args ...any) { g.reports = append(g.reports, fmt.Sprintf(format, args...)) }
	g.must(g.Restore(g.t.Context(), blue, report))
	g.must(g.Revive(g.t.Context(), blue, report))
}

// objects returns all objects of a cluster besides data, pods and the grant record.
func (g *restoreFixture) objects() []client.Object {
	return append(g.clusterObjects(blue), budget(blue, 1), &corev1.Secret{ObjectMeta: meta(blue, secretName(blue), "")},
		&corev1.ConfigMap{ObjectMeta: meta(blue, managerName(blue), "")})
}

// The next pass restores each deleted object of a cluster and reports it once; also two at once.
func TestFinding28EachObjectIsPutBack(t *testing.T) {
	g := newRestoreFixture(t)
	all := g.objects()
	for n := range all {
		for m := n; m < len(all); m++ {
			two := []client.Object{all[n], all[m]}
			for _, obj := range two {
				if err := g.o.Client.Delete(t.Context(), obj.DeepCopyObject().(client.Object)); client.IgnoreNotFound(err) != nil {
					t.Fatal(err)
				}
			}
			g.reports = nil
			g.put()
			for _, obj := range two {
				name := g.keyOf(obj)
				if err := g.o.Client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj.DeepCopyObject().(client.Object)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				kind, _, _ := strings.Cut(name, "/")
				about := slices.IndexFunc(g.reports, func(said string) bool { return strings.HasPrefix(said, kind+" "+obj.GetName()+" was gone") })
				if about < 0 {
					t.Errorf("nobody is told of %s: %v", name, g.reports)
				}
			}
			g.reports = nil
			if g.put(); len(g.reports) > 0 {
				t.Errorf("told again: %v", g.reports)
			}
		}
	}
}

// A change that somebody made to an object is reverted, also a widened role.
func TestFinding28AChangeIsTakenBack(t *testing.T) {
	for name, change := range map[string]func(g *restoreFixture) client.Object{
		"the selector of a Service": func(g *restoreFixture) client.Object {
			s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: blue.Namespace, Name: "blue-rw"}}
			g.must(g.o.Client.Get(g.t.Context(), client.ObjectKeyFromObject(s), s))
			s.Spec.Selector["team"] = "green"
			return s
		},
		"a wider Role": func(g *restoreFixture) client.Object {
			r := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: blue.Namespace, Name: "blue-instance"}}
			g.must(g.o.Client.Get(g.t.Context(), client.ObjectKeyFromObject(r), r))
			r.Rules = append(r.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}})
			return r
		},
		"a budget that forbids all": func(g *restoreFixture) client.Object {
			b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: blue.Namespace, Name: "blue"}}
			g.must(g.o.Client.Get(g.t.Context(), client.ObjectKeyFromObject(b), b))
			b.Spec.MinAvailable = ptr(intstr.FromInt32(2))
			return b
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRestoreFixture(t)
			changed := change(g)
			before := changed.DeepCopyObject().(client.Object)
			g.must(g.o.Client.Get(t.Context(), client.ObjectKeyFromObject(changed), before))
			g.must(g.o.Client.Update(t.Context(), changed))
			g.put()
			after := before.DeepCopyObject().(client.Object)
			g.must(g.o.Client.Get(t.Context(), client.ObjectKeyFromObject(changed), after))
			if !matches(before, after) || matches(changed, after) {
				t.Errorf("it is %+v", after)
			}
		})
	}
}

// The loss of the Secret is a rotation: there are new values, and agents that only know the old
// token are called with it. A Secret that somebody has replaced is noticed.
func TestFinding28SecretIsRotated(t *testing.T) {
	g := newRestoreFixture(t)
	old, err := g.secretsOf(t.Context(), blue, false)
	g.must(err)
	g.must(g.o.Client.Delete(t.Context(), &corev1.Secret{ObjectMeta: meta(blue, secretName(blue), "")}))
	g.put()
	now, err := g.secretsOf(t.Context(), blue, false)
	g.must(err)
	if now.token == old.token || now.password == old.password || now.former != old.token {
		t.Errorf("it was %+v, and is %+v", old, now)
	}
	place, err := g.Instances().Locate(t.Context(), blue.Of("blue-1-a"))
	g.must(err)
	if place.Token != now.token || place.Former != old.token {
		t.Errorf("its agent is asked with %+v", place)
	}
	var pods corev1.PodList
	g.must(g.o.Client.List(t.Context(), &pods))
	for _, pod := range pods.Items {
		if pod.Annotations[secretAnnotation] != now.version {
			t.Errorf("pod %s is not let know", pod.Name)
		}
	}
	secret := &corev1.Secret{ObjectMeta: meta(blue, secretName(blue), "")}
	g.must(g.o.Client.Get(t.Context(), client.ObjectKeyFromObject(secret), secret))
	secret.Data = map[string][]byte{tokenKey: []byte("mine"), passwordKey: []byte("own")}
	g.must(g.o.Client.Update(t.Context(), secret))
	g.put()
	if password, err := g.Password(t.Context(), blue); err != nil || password != "own" {
		t.Errorf("the password is %q, %v", password, err)
	}
}

// A cluster manager whose ConfigMap is deleted gets it back with its content, as its own, but
// without what may have changed since. It continues to save.
func TestFinding28MemoryIsGivenBack(t *testing.T) {
	for _, seen := range []bool{true, false} {
		g := newRestoreFixture(t)
		m := &WatchStateStore{Client: g.o.Client, Cluster: blue}
		_, err := m.Load(t.Context())
		g.must(err)
		state := postgres.WatchState{Created: true, HADesired: true, Version: 7, Writer: "blue-1-a", Sync: postgres.SyncState{Epoch: 3, Safe: true, Names: []string{"blue-2-b"}}}
		g.must(m.Save(t.Context(), state))
		kept := &corev1.ConfigMap{ObjectMeta: meta(blue, managerName(blue), "")}
		g.must(g.o.Client.Get(t.Context(), client.ObjectKeyFromObject(kept), kept))
		g.must(g.o.Client.Delete(t.Context(), kept.DeepCopy()))
		if seen {
			g.deleted(kept)
		}
		state.Off = true
		if err := m.Save(t.Context(), state); err == nil {
			t.Error("it saves into nothing")
		}
		g.put()
		if seen {
			g.must(g.o.Client.Get(t.Context(), client.ObjectKeyFromObject(kept), kept))
			var given postgres.WatchState
			g.must(json.Unmarshal([]byte(kept.Data[stateKey]), &given))
			if !given.Created || given.Version != 7 || given.Sync.Safe || given.Sync.Epoch != 0 {
				t.Errorf("it was given %+v", given)
			}
		}
		g.must(m.Save(t.Context(), state))
		next := &WatchStateStore{Client: g.o.Client, Cluster: blue}
		if got, err := next.Load(t.Context()); err != nil || !got.Off || !got.Sync.Safe {
			t.Errorf("its successor reads %+v, %v", got, err)
		}
	}
}

// Without a manager its ConfigMap is not restored.
func TestFinding28NoMemoryWithoutAManager(t *testing.T) {
	g := newRestoreFixture(t)
	g.must((&Managers{g.Placement}).Remove(t.Context(), blue))
	g.put()
	err := g.o.Client.Get(t.Context(), client.ObjectKey{Namespace: blue.Namespace, Name: managerName(blue)}, &corev1.ConfigMap{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("it has a memory: %v", err)
	}
	if err := g.o.Client.Get(t.Context(), client.ObjectKey{Namespace: blue.Namespace, Name: managerName(blue)}, &appsv1.Deployment{}); !apierrors.IsNotFound(err) {
		t.Errorf("it has a manager: %v", err)
	}
}

// The grant record is restored from what is known. A writer that writes continues at once; all
// others wait for as long as another one may write.
func TestFinding28GrantIsMadeAnew(t *testing.T) {
	for _, wrote := range []bool{true, false} {
		g := newRestoreFixture(t)
		g.must(g.o.Client.Delete(t.Context(), &coordinationv1.Lease{ObjectMeta: meta(blue, grantName(blue), "")}))
		agent := &Grants{Client: g.o.Client, Cluster: blue}
		_, err := agent.Read(t.Context())
		refused(t, "to read it", err, port.GrantLost)
		_, err = agent.Renew(t.Context(), lease.Renewal{Writer: "blue-1-a", Epoch: 3, TTL: 10 * time.Second})
		refused(t, "to renew it", err, port.GrantLost)
		refused(t, "to give it", g.Storage().Grant(t.Context(), blue, "blue-2-b", 4), port.GrantLost)
		v, err := g.Storage().Restore(t.Context(), blue, port.Volume{Size: gi, Writer: "blue-1-a", Epoch: 3}, wrote)
		g.must(err)
		if v.Writer != "blue-1-a" || v.Epoch != 3 || v.Size != gi || v.State != port.VolumeReady {
			t.Errorf("it is %+v", v)
		}
		_, err = agent.Renew(t.Context(), lease.Renewal{Writer: "blue-1-a", Identity: "blue-1-a@node-1", Epoch: 3, TTL: 10 * time.Second})
		refused(t, "one of its name that may have been moved", err, port.SwitchRefused)
		_, err = agent.Renew(t.Context(), lease.Renewal{Writer: "blue-1-a", Epoch: 3, TTL: 10 * time.Second, Holds: true})
		if wrote != (err == nil) {
			t.Errorf("wrote %t: its writer is told %v", wrote, err)
		}
		_, err = agent.Renew(t.Context(), lease.Renewal{Writer: "blue-2-b", Epoch: 3, TTL: 10 * time.Second})
		refused(t, "another one", err, port.SwitchRefused)
		// A repeated restore with an older epoch changes nothing.
		v, err = g.Storage().Restore(t.Context(), blue, port.Volume{Size: 2 * gi, Writer: "blue-2-b", Epoch: 2}, true)
		if err != nil || v.Writer != "blue-1-a" || v.Epoch != 3 || v.Size != gi {
			t.Errorf("it became %+v, %v", v, err)
		}
	}
}

// Pods with the token of a deleted ServiceAccount are created again: the writer first, then those
// that are not ready, then one at a time.
func TestFinding28PodsOfAnAccountThatIsGone(t *testing.T) {
	g := newRestoreFixture(t)
	serves := func(name string, status corev1.ConditionStatus) {
		pod := &corev1.Pod{}
		g.must(g.o.Client.Get(t.Context(), client.ObjectKey{Namespace: blue.Namespace, Name: name}, pod))
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
		g.must(g.o.Client.Status().Update(t.Context(), pod))
	}
	serves("blue-1-a", corev1.ConditionTrue)
	serves("blue-2-b", corev1.ConditionTrue)
	account := &corev1.ServiceAccount{ObjectMeta: meta(blue, instanceAccount(blue), "")}
	g.must(g.o.Client.Get(t.Context(), client.ObjectKeyFromObject(account), account))
	account.CreationTimestamp = metav1.NewTime(time.Now().Add(time.Minute))
	g.must(g.o.Client.Update(t.Context(), account))
	there := func(name string) bool {
		return g.o.Client.Get(context.Background(), client.ObjectKey{Namespace: blue.Namespace, Name: name}, &corev1.Pod{}) == nil
	}
	report := func(_, format string, args ...any) { g.reports = append(g.reports, fmt.Sprintf(format, args...)) }
	g.must(g.Restore(t.Context(), blue, report))
	if there("blue-1-a") || !there("blue-2-b") || len(g.reports) != 1 {
		t.Errorf("of the writer: %t, of the reader: %t, %v", there("blue-1-a"), there("blue-2-b"), g.reports)
	}
	g.must(g.Restore(t.Context(), blue, report))
	if !there("blue-2-b") {
		t.Error("the reader went while the writer was away")
	}
	serves("blue-2-b", corev1.ConditionFalse)
	g.must(g.Restore(t.Context(), blue, report))
	if there("blue-2-b") {
		t.Error("a reader that does not serve keeps a token that is void")
	}
}
