package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// # finding 29: kubectl delete namespace completes, with clusters that are at rest,
// being created, in the middle of a change, interrupted, or of the other kind; and it
// reports data that should have been retained but are lost.
func TestFinding29KubectlDeleteNamespace(t *testing.T) {
	h := installManifest(t)
	h.namespace = h.plane.Namespace(t)
	h.kubectl("apply", "-f", "../../examples/sharedstorage/classes.yaml", "-f", "../../examples/sharedstorage/cluster.yaml", "-f", "../../examples/sharedstorage/mpdcluster.yaml")
	h.kubectl("patch", "ssc", "orders", "--type=merge", "-p", `{"spec":{"readers":1,"storage":{"onDelete":"Retain"}}}`)
	const brokenCluster = `{"apiVersion":"pawl.dev/v1alpha1","kind":"SharedStorageCluster","metadata":{"name":"%s"},"spec":{"readers":1,"storage":{"claim":"%s"}}}`
	h.applyObject(fmt.Sprintf(brokenCluster, "astray", "no-such-claim"))
	h.awaitRunning("orders", 1, nil)
	h.await(2*time.Minute, "a cluster is interrupted", func(context.Context) error {
		state, err := h.try("get", "ssc", "astray", "-o", "jsonpath={.status.state}")
		if err == nil && state != "Interrupted" {
			err = errors.New(state)
		}
		return err
	})
	h.kubectl("patch", "ssc", "orders", "--type=merge", "-p", `{"spec":{"class":{"name":"wide"}}}`) // starts a change
	h.applyObject(fmt.Sprintf(brokenCluster, "fresh", ""))
	began := time.Now()
	h.kubectl("delete", "namespace", h.namespace, "--timeout=3m")
	t.Logf("the namespace was gone after %s", time.Since(began).Round(100*time.Millisecond))
	h.await(time.Minute, "it is said that the data are not kept", func(context.Context) error {
		events, err := h.try("-n", "default", "get", "events", "-o", "jsonpath={range .items[*]}{.regarding.name}{.involvedObject.name} {.reason} {.message}{\"\\n\"}{end}")
		for line := range strings.Lines(events) {
			if strings.HasPrefix(line, h.namespace+" DataNotKept ") && strings.Contains(line, "/orders") {
				return nil
			}
		}
		return fmt.Errorf("%w: %s", errors.Join(err, errors.New("no Event")), events)
	})
}

// applyObject applies an object.
func (h *fixture) applyObject(object string) {
	h.t.Helper()
	if out, err := h.shell(fmt.Sprintf("kubectl apply -n %s -f - <<'END'\n%s\nEND\n", h.namespace, object)); err != nil {
		h.t.Fatalf("%v\n%s", err, out)
	}
}
