package sharedstorage_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// replaceableObjects returns the objects of a cluster that somebody may delete, without
// data.
func replaceableObjects(c string) []string {
	all := []string{"lease/" + c + "-grant", "secret/" + c + "-auth", "configmap/" + c + "-manager", "deployment/" + c + "-manager", "pdb/" + c}
	for _, role := range []string{"rw", "ro"} {
		all = append(all, "service/"+c+"-"+role)
	}
	for _, kind := range []string{"serviceaccount", "role", "rolebinding"} {
		all = append(all, kind+"/"+c+"-instance", kind+"/"+c+".manager.pawl.dev")
	}
	return all
}

// # finding 28: each object that the operator has created for a cluster is deleted while
// a client writes, one at a time and in pairs. The operator recreates it within seconds,
// the cluster is Running and complete again, and no answered row is lost. The pairs are a
// sample; PAWL_TEST_PAIRS=1 tests all of them (make test-points).
func TestFinding28DeletedAtRest(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	t.Parallel()
	w := newFixture(t)
	w.kubectl("apply", "-f", "../../examples/sharedstorage/classes.yaml", "-f", "../../examples/sharedstorage/cluster.yaml")
	c := w.awaitRunning("orders", 2, nil)
	f := w.write("orders")
	all := replaceableObjects("orders")
	var batches [][]string
	for n, name := range all {
		batches = append(batches, []string{name})
		for m := n + 1; m < len(all); m++ {
			if os.Getenv("PAWL_TEST_PAIRS") != "" || m == n+1 && n%4 == 0 {
				batches = append(batches, []string{name, all[m]})
			}
		}
	}
	for _, names := range batches {
		f.MaxPause()
		before := w.uids(names)
		began := time.Now()
		w.kubectl(append([]string{"delete", "--wait=false"}, names...)...)
		w.await(time.Minute, strings.Join(names, " and ")+" is back", func(context.Context) error {
			for name, uid := range w.uids(names) {
				if uid == "" || uid == before[name] {
					return fmt.Errorf("%s is %q", name, uid)
				}
			}
			return nil
		})
		back := time.Since(began)
		c = w.awaitRunning("orders", 2, nil)
		w.await(4*time.Minute, "the client writes after "+strings.Join(names, " and "), func(context.Context) error {
			if silent := f.Silence(); silent > 2*time.Second {
				return fmt.Errorf("the last row was answered %s ago", silent)
			}
			return nil
		})
		t.Logf("%-60s back after %6s, whole after %6s, longest write pause %s", strings.Join(names, " "), back.Round(10*time.Millisecond), time.Since(began).Round(10*time.Millisecond), f.MaxPause().Round(time.Millisecond))
	}
	w.checkReplication(c)
	w.await(time.Minute, "Events report it", func(context.Context) error {
		events, err := w.try("get", "events", "-o", "jsonpath={.items[*].reason}")
		for _, reason := range []string{"Restored", "GrantRestored", "SecretReplaced", "ManagerRestored", "PodRenewed"} {
			if err == nil && !strings.Contains(events, reason) {
				err = fmt.Errorf("%s is not among %s", reason, events)
			}
		}
		return err
	})
	rows, _ := f.end(c)
	t.Logf("%d rows were committed and are on all instances", rows)
}

// deletions deletes the objects of a cluster one after the other.
type deletions struct {
	w       *fixture
	names   []string
	next    int
	deleted map[string]int // number of deletions
}

// deleteNext deletes the next existing object, and returns its name and uid.
func (s *deletions) deleteNext() (name, uid string) {
	for range s.names {
		name = s.names[s.next%len(s.names)]
		s.next++
		if uid = s.w.uids([]string{name})[name]; uid != "" {
			if out, err := s.w.try("delete", "--wait=false", name); err == nil && strings.Contains(out, "deleted") {
				s.deleted[name]++
				return name, uid
			}
		}
	}
	return "", ""
}

// during requests a flow, and deletes objects while it runs, the next one when the last is
// back or can no longer come back. If the flow ends early, the remaining objects are
// deleted during the next flow.
func (s *deletions) during(flow string, most int, ask func(), ended func(ctx context.Context) error) {
	s.w.t.Helper()
	began := time.Now()
	ask()
	var deleted []string
	var uid, name string
	at := time.Now()
	s.w.await(8*time.Minute, flow+" ends whatever is deleted", func(ctx context.Context) error {
		c, err := s.w.cluster(ctx, "orders")
		under := err == nil && (c.DeletionTimestamp != nil || c.Status.Run != nil && c.Status.Run.Flow == flow)
		if under && name != "" {
			now := s.w.uids([]string{name})[name]
			under = now != "" && now != uid || time.Since(at) > 5*time.Second
		}
		if under && len(deleted) < most {
			if name, uid = s.deleteNext(); name != "" {
				deleted, at = append(deleted, name), time.Now()
			}
		}
		return ended(ctx)
	})
	s.w.t.Logf("%-28s ended after %6s, deleted: %s", flow, time.Since(began).Round(100*time.Millisecond), strings.Join(deleted, " "))
}

// # finding 28: the objects of a cluster are deleted during its flows, from the create to
// the delete, while a client writes. Each flow completes, the deleted objects exist again,
// and no answered row is lost. The flows are a sample in which each object is deleted
// once; PAWL_TEST_PAIRS=1 tests all flows that the plane can run, and begins each of them
// with each object (make test-points).
func TestFinding28DeletedInEachFlow(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	t.Parallel()
	w := newFixture(t)
	s := &deletions{w: w, names: replaceableObjects("orders"), deleted: map[string]int{}}
	whole := os.Getenv("PAWL_TEST_PAIRS") != ""
	rounds, most := 1, 3
	if whole {
		rounds, most = len(s.names), len(s.names)
	}
	readers := int32(2)
	var c *v1alpha1.SharedStorageCluster
	rests := func(ctx context.Context) (err error) {
		if c, err = w.cluster(ctx, "orders"); err != nil {
			return err
		}
		if c.Status.State != "Running" || c.Status.ObservedGeneration != c.Generation || c.Status.Readers != readers || len(c.Annotations) > 0 && c.Annotations["pawl.dev/restart"]+c.Annotations["pawl.dev/rebuild"]+c.Annotations["pawl.dev/switch-writer"] != "" {
			return fmt.Errorf("%s %q, generation %d of %d, %d readers", c.Status.State, c.Status.Message, c.Status.ObservedGeneration, c.Generation, c.Status.Readers)
		}
		for _, r := range c.Status.Requests {
			if r.State != "Done" {
				return fmt.Errorf("request %s is %s: %s", r.Kind, r.State, r.Message)
			}
		}
		return nil
	}
	patch := func(spec string) func() {
		return func() { w.kubectl("patch", "ssc", "orders", "--type=merge", "-p", `{"spec":`+spec+`}`) }
	}
	request := func(kind string, args func() string) func() {
		return func() { w.kubectl("annotate", "ssc", "orders", "pawl.dev/"+kind+"="+args()) }
	}
	w.kubectl("apply", "-f", "../../examples/sharedstorage/classes.yaml")
	s.during("CreateSharedStorageCluster", most, func() { w.kubectl("apply", "-f", "../../examples/sharedstorage/cluster.yaml") }, rests)
	c = w.awaitRunning("orders", readers, nil)
	f := w.write("orders")
	for round := range rounds {
		flows := []struct {
			name    string
			sampled bool
			readers int32
			ask     func()
		}{
			{"AddReaders", true, 3, patch(`{"readers":3}`)},
			{"SwitchWriter", true, 3, request("switch-writer", func() string { return reader(c) })},
			{"RestartCluster", false, 3, request("restart", func() string { return "cluster" })},
			{"RestartInstance", false, 3, request("restart", func() string { return reader(c) })},
			{"RebuildReader", false, 3, request("rebuild", func() string { return reader(c) })},
			{"ModifyClass", false, 3, patch(fmt.Sprintf(`{"class":{"name":%q}}`, []string{"wide", "small"}[round%2]))},
			{"FlushParameters", true, 3, patch(fmt.Sprintf(`{"parameters":{"work_mem":"%dMB"}}`, 5+round))},
			{"RemoveReader", true, 2, patch(`{"readers":2}`)},
		}
		for n, flow := range flows {
			if !whole && !flow.sampled {
				continue
			}
			if whole {
				s.next = round + n
			}
			readers = flow.readers
			s.during(flow.name, most, flow.ask, rests)
			c = w.awaitRunning("orders", readers, nil)
		}
	}
	for ; !whole && len(s.deleted) < len(s.names); c = w.awaitRunning("orders", readers, nil) { // those that no flow was long enough for
		s.during("RestartCluster", most, request("restart", func() string { return "cluster" }), rests)
	}
	w.await(time.Minute, "all objects are there", func(context.Context) error {
		for name, uid := range w.uids(s.names) {
			if uid == "" {
				return fmt.Errorf("%s is not", name)
			}
		}
		return nil
	})
	w.await(4*time.Minute, "the client writes", func(context.Context) error {
		if silent := f.Silence(); silent > 2*time.Second {
			return fmt.Errorf("the last row was answered %s ago", silent)
		}
		return nil
	})
	w.checkReplication(c)
	rows, pause := f.end(c)
	t.Logf("%d rows were committed and are on all instances, the longest write pause was %s; deleted: %v", rows, pause.Round(time.Millisecond), s.deleted)
	s.during("DeleteCluster", most, func() { w.kubectl("delete", "ssc", "orders", "--wait=false") }, func(context.Context) error {
		left, err := w.try("get", "ssc,pods,pvc,svc,deploy,pdb,roles,rolebindings,serviceaccounts,secrets,leases,configmaps", "-l", "pawl.dev/cluster=orders", "-o", "name")
		if err == nil {
			var object string
			object, err = w.try("get", "ssc", "-o", "name")
			left += object
		}
		if err != nil || strings.Contains(left, "/") {
			return fmt.Errorf("%v %s", err, left)
		}
		return nil
	})
}

func (w *fixture) uids(names []string) map[string]string {
	all := map[string]string{}
	for _, name := range names {
		out, _ := w.try("get", name, "--ignore-not-found", "-o", "jsonpath={.metadata.uid}")
		all[name] = strings.TrimSpace(out)
	}
	return all
}
