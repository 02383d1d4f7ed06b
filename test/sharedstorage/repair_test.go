package sharedstorage_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// belongings are the objects of a cluster that somebody may delete, beside data.
func belongings(c string) []string {
	all := []string{"lease/" + c + "-grant", "secret/" + c + "-auth", "configmap/" + c + "-manager", "deployment/" + c + "-manager", "pdb/" + c}
	for _, role := range []string{"rw", "ro"} {
		all = append(all, "service/"+c+"-"+role)
	}
	for _, kind := range []string{"serviceaccount", "role", "rolebinding"} {
		all = append(all, kind+"/"+c+"-instance", kind+"/"+c+"-manager")
	}
	return all
}

// # finding 28: each object that the operator has made of a cluster is deleted while a
// client writes, one at a time and in pairs. It is back within seconds, the cluster
// is Running and whole again, and no row that was answered is lost. Pairs are a
// sample; PAWL_TEST_PAIRS=1 takes all of them (make test-points).
func TestFinding28DeletedAtRest(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.kubectl("apply", "-f", "../../examples/sharedstorage/classes.yaml", "-f", "../../examples/sharedstorage/cluster.yaml")
	c := w.rests("orders", 2, nil)
	f := w.write("orders")
	all := belongings("orders")
	var strikes [][]string
	for n, name := range all {
		strikes = append(strikes, []string{name})
		for m := n + 1; m < len(all); m++ {
			if os.Getenv("PAWL_TEST_PAIRS") != "" || m == n+1 && n%4 == 0 {
				strikes = append(strikes, []string{name, all[m]})
			}
		}
	}
	for _, names := range strikes {
		f.Lap()
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
		c = w.rests("orders", 2, nil)
		w.await(4*time.Minute, "the client writes after "+strings.Join(names, " and "), func(context.Context) error {
			if silent := f.Silence(); silent > 2*time.Second {
				return fmt.Errorf("the last row was answered %s ago", silent)
			}
			return nil
		})
		t.Logf("%-60s back after %6s, whole after %6s, longest write pause %s", strings.Join(names, " "), back.Round(10*time.Millisecond), time.Since(began).Round(10*time.Millisecond), f.Lap().Round(time.Millisecond))
	}
	w.streams(c)
	w.await(time.Minute, "Events tell of it", func(context.Context) error {
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

func (w *world) uids(names []string) map[string]string {
	all := map[string]string{}
	for _, name := range names {
		out, _ := w.try("get", name, "--ignore-not-found", "-o", "jsonpath={.metadata.uid}")
		all[name] = strings.TrimSpace(out)
	}
	return all
}
