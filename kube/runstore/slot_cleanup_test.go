package runstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/kube/runstore/client"
	"github.com/pawl-dev/pawl/kube/runstore/format"
	"github.com/pawl-dev/pawl/kube/runstore/kubetest"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func openOn(t *testing.T, server *kubetest.Server, o Options) *Store {
	t.Helper()
	o.Config = server.Config()
	s, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// createRun creates a run that takes its slot.
func createRun(t *testing.T, s *Store, id, subject string) *runtype.Run {
	t.Helper()
	now := time.Now().UTC()
	r, err := s.Create(t.Context(), &runtype.Run{ID: id, Flow: "F", Subject: subject, CreatedAt: now, NextAt: now}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// deleteRun deletes the object of a run, as kubectl and the garbage collector do.
func deleteRun(t *testing.T, s *Store, id, namespace string) {
	t.Helper()
	if err := s.client.Delete(t.Context(), s.runRef(namespace, s.format.Name(id)), "", ""); err != nil {
		t.Fatal(err)
	}
}

// slotsIn returns the Leases of slots by their subject.
func slotsIn(t *testing.T, s *Store) map[string]coordinationv1.Lease {
	t.Helper()
	var list coordinationv1.LeaseList
	if err := s.client.List(t.Context(), client.Ref{Group: leaseGroup, Resource: leaseResource}, metav1.ListOptions{LabelSelector: format.LabelKind + "=slot"}, &list); err != nil {
		t.Fatal(err)
	}
	slots := map[string]coordinationv1.Lease{}
	for _, l := range list.Items {
		slots[l.Annotations[format.AnnotationSubject]] = l
	}
	return slots
}

func eventually(t *testing.T, what string, good func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !good(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

func knownSlots(s *Store) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.slots.slots)
}

func knows(s *Store, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cache.ids[id] != nil
}

// When the last run of a subject is deleted, its slot goes too: the Lease and the cached
// copy, whoever deletes the run. A process that only watches sends no request.
func TestSlotsGoWithTheLastRun(t *testing.T) {
	for _, kind := range []Kind{Run, ConfigMap} {
		t.Run(string(kind), func(t *testing.T) {
			server := kubetest.NewServer(t)
			s, standby := openOn(t, server, Options{Kind: kind}), openOn(t, server, Options{Kind: kind})
			const subjects = 20
			for i := range subjects {
				createRun(t, s, fmt.Sprint("r", i), fmt.Sprintf("K/n/%d", i))
			}
			createRun(t, s, "stays", "K/n/stays")
			createRun(t, s, "other", "K/n/stays")
			if n := len(slotsIn(t, s)); n != subjects+1 {
				t.Fatalf("%d slots of %d subjects", n, subjects+1)
			}
			eventually(t, "the other one knows all", func() bool { return knows(standby, "other") })
			before := standby.Requests()
			for i := range subjects {
				deleteRun(t, s, fmt.Sprint("r", i), "n")
			}
			deleteRun(t, s, "other", "n")
			eventually(t, "only the slot that has a run is left", func() bool {
				left := slotsIn(t, s)
				return len(left) == 1 && left["K/n/stays"].Name != ""
			})
			if n := knownSlots(s); n != 1 {
				t.Errorf("%d slots are remembered, one subject has a run", n)
			}
			eventually(t, "the other one forgets them", func() bool { return !knows(standby, "other") && !knows(standby, fmt.Sprint("r", subjects-1)) })
			if n := standby.Requests() - before; n != 0 {
				t.Errorf("a process that only watches sent %d requests", n)
			}
		})
	}
}

// A slot whose subject names its owner with the uid has that owner, and the store does
// not delete it. Any other slot has no owner: it could be an older object of the same name.
func TestSlotsOfOwnedSubjects(t *testing.T) {
	owner := func(string) *metav1.OwnerReference {
		return &metav1.OwnerReference{APIVersion: "v1", Kind: "K", Name: "x", UID: types.UID("u1")}
	}
	server := kubetest.NewServer(t)
	s := openOn(t, server, Options{Owner: owner})
	for id, subject := range map[string]string{"a": "K/n/x/u1", "b": "K/n/x/u2", "c": "K/n/x", "d": "K/n/y/u1"} {
		createRun(t, s, id, subject)
	}
	slots := slotsIn(t, s)
	for subject, want := range map[string]int{"K/n/x/u1": 1, "K/n/x/u2": 0, "K/n/x": 0, "K/n/y/u1": 1} {
		if got := slots[subject].OwnerReferences; len(got) != want {
			t.Errorf("the slot of %s is owned by %v", subject, got)
		}
	}
	for _, id := range []string{"a", "b", "c", "d"} {
		deleteRun(t, s, id, "n")
	}
	eventually(t, "the slots without owner are gone", func() bool {
		left := slotsIn(t, s)
		return len(left) == 2 && left["K/n/x/u1"].Name != "" && left["K/n/y/u1"].Name != ""
	})
	if n := knownSlots(s); n != 0 {
		t.Errorf("%d slots are remembered, no subject has a run", n)
	}

	elsewhere := openOn(t, kubetest.NewServer(t), Options{Owner: owner, Namespace: "home", SingleNamespace: true})
	createRun(t, elsewhere, "a", "K/n/x/u1")
	if got := slotsIn(t, elsewhere)["K/n/x/u1"].OwnerReferences; len(got) != 0 {
		t.Errorf("a slot in home is owned from another namespace by %v", got)
	}
}

// A slot that is needed again before its Lease is deleted stays. A slot that an earlier
// version of the program has created without an owner gets one.
func TestASlotThatIsNeededAgainStays(t *testing.T) {
	server := kubetest.NewServer(t)
	s, other := openOn(t, server, Options{}), openOn(t, server, Options{})
	createRun(t, s, "a", "K/n/x")
	deleteRun(t, s, "a", "n")
	eventually(t, "the run is forgotten", func() bool { return !knows(s, "a") && !knows(other, "a") })
	if r := createRun(t, other, "b", "K/n/x"); r.Phase != runtype.Running {
		t.Fatalf("b is %s", r.Phase)
	}
	if err := s.slots.deleteUnusedSlot(t.Context(), unusedSlot{"n", "K/n/x"}); err != nil {
		t.Fatal(err)
	}
	if r := createRun(t, s, "c", "K/n/x"); r.Phase != runtype.Queued {
		t.Errorf("c is %s beside b", r.Phase)
	}
	upgraded := openOn(t, server, Options{Owner: func(string) *metav1.OwnerReference {
		return &metav1.OwnerReference{APIVersion: "v1", Kind: "K", Name: "y", UID: "u1"}
	}})
	createRun(t, s, "old", "K/n/y/u1")
	eventually(t, "the newer version knows the run", func() bool { return knows(upgraded, "old") })
	createRun(t, upgraded, "new", "K/n/y/u1")
	if got := slotsIn(t, s)["K/n/y/u1"].OwnerReferences; len(got) != 1 {
		t.Errorf("the slot is owned by %v", got)
	}
}

// Slots that stayed while no process watched are deleted by the next sweep, but not
// slots that have a run or an owner, or belong to another store.
func TestSlotsThatStayedAreSwept(t *testing.T) {
	server := kubetest.NewServer(t)
	maker := openOn(t, server, Options{})
	put := func(subject, holder string, owned bool) {
		t.Helper()
		r := client.Ref{Group: leaseGroup, Resource: leaseResource, Namespace: "n", Name: slotName(subject)}
		meta := format.NewMeta(r.Name, r.Namespace, map[string]string{format.LabelKind: "slot"})
		meta["annotations"] = format.Tree{format.AnnotationSubject: subject}
		if owned {
			meta["ownerReferences"] = []metav1.OwnerReference{{APIVersion: "v1", Kind: "K", Name: "x", UID: "u"}}
		}
		if _, err := maker.client.Post(t.Context(), r, format.Tree{"apiVersion": leaseGroup + "/v1", "kind": "Lease", "metadata": meta, "spec": format.Tree{"holderIdentity": holder}}); err != nil {
			t.Fatal(err)
		}
	}
	createRun(t, maker, "lives", "K/n/lives")
	put("K/n/old", "gone", false)
	put("K/n/owned", "gone", true)
	put("K/n/configmap", format.ConfigMapPrefix+"gone", false)
	put("Other/n/x", "gone", false)
	s := openOn(t, server, Options{Serves: Kinds("K")})
	if _, err := s.Expired(context.Background(), time.Now(), func(string) runtype.Retention { return runtype.Retention{} }, 10); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the slot that nobody has is gone", func() bool { return slotsIn(t, s)["K/n/old"].Name == "" })
	eventually(t, "the sweep has ended", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !s.slots.deleting
	})
	left := slotsIn(t, s)
	for _, subject := range []string{"K/n/lives", "K/n/owned", "K/n/configmap", "Other/n/x"} {
		if left[subject].Name == "" {
			t.Errorf("the slot of %s is gone", subject)
		}
	}
}
