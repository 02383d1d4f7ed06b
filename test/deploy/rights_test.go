package deploy_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/deploy"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// unusedRights are the rights that no request of the test below needs, with the reason for
// each. A right that is neither used nor listed here is superfluous.
var unusedRights = map[string]string{
	"configmaps: update": "given to the managers of clusters: nobody can give what he does not have",
	"configmaps: patch":  "the limits of steps, which only flows of files have (--flows): test/runstore takes them",
	"pods: patch":        "given to the managers of clusters; and when a reader becomes the writer",
	"pawl.dev/sharedstorageclusters/finalizers: update":     "asked for by OwnerReferencesPermissionEnforcement, which this plane has on: without it nothing can be owned",
	"mpd.polardb.aliyun.com/mpdclusters/finalizers: update": "as above",
	"events.k8s.io/events: patch":                           "an Event that is repeated within six minutes",
	"pods: get":                                             "a pod that the cache does not know yet",
	"pawl.dev/sharedstorageclusters: list":                  noStreaming,
	"mpd.polardb.aliyun.com/mpdclusters: list":              noStreaming,
	"pawl.dev/sharedstoragebackups: get":                    takesBackups,
	"pawl.dev/sharedstoragebackups: list":                   takesBackups,
	"pawl.dev/sharedstoragebackups: patch":                  takesBackups,
	"pawl.dev/sharedstoragebackups: create":                 takesBackups,
	"pawl.dev/sharedstoragebackups: delete":                 "what the schedule has made is deleted when it has expired",
	"pawl.dev/sharedstoragebackups/status: patch":           takesBackups,
	"pawl.dev/sharedstoragebackups/finalizers: update":      "as above",
	"coordination.k8s.io/leases: list":                      noStreaming,
	"apps/deployments: list":                                noStreaming,
	"configmaps: list":                                      noStreaming,
	"services: list":                                        noStreaming,
	"serviceaccounts: list":                                 noStreaming,
	"secrets: list":                                         noStreaming,
	"secrets: patch":                                        "a password that somebody changes in the Secret of a user: test/sharedstorage does",
	"policy/poddisruptionbudgets: list":                     noStreaming,
	"rbac.authorization.k8s.io/roles: list":                 noStreaming,
	"rbac.authorization.k8s.io/rolebindings: list":          noStreaming,
	"nodes: list":                                           noStreaming,
	"pawl.dev/rollouts: list":                               noStreaming,
	"pawl.dev/applications: list":                           noStreaming,
	"pawl.dev/applicationrevisions: list":                   noStreaming,
	"apps/statefulsets: list":                               noStreaming,
	"autoscaling/horizontalpodautoscalers: list":            noStreaming,
	"pawl.dev/rollouts: get":                                "a Rollout that the cache is behind of, and the owner of a workload that is claimed already",
	"apps.kruise.io/clonesets: get":                         noKruise,
	"apps.kruise.io/clonesets: list":                        noKruise,
	"apps.kruise.io/clonesets: watch":                       noKruise,
	"apps.kruise.io/clonesets: patch":                       noKruise,
	"apps.kruise.io/statefulsets: get":                      noKruise,
	"apps.kruise.io/statefulsets: list":                     noKruise,
	"apps.kruise.io/statefulsets: watch":                    noKruise,
	"apps.kruise.io/statefulsets: patch":                    noKruise,
	"admissionregistration.k8s.io/mutatingadmissionpolicybindings pawl-rollout-guard-advancedstatefulsets: get": noKruise,
	"admissionregistration.k8s.io/mutatingadmissionpolicybindings pawl-rollout-guard-clonesets: get":            noKruise,
	"admissionregistration.k8s.io/mutatingadmissionpolicybindings pawl-rollout-guard-clonesets-v1beta1: get":    noKruise,
}

const noKruise = "OpenKruise is not installed on this plane: the tests below kruise use it"

const takesBackups = "no backup is taken here: the test of backups in test/sharedstorage has these rights, and nothing is refused there"

const noStreaming = "an API server that does not stream lists, as this one does: a watch begins with a list there"

// The lifecycle of clusters with the Deployment and the rights of install.yaml: no request
// is refused, and the operator has no superfluous right.
func TestRights(t *testing.T) {
	h := installManifest(t)
	h.kubectl("label", "namespace", h.namespace, "pod-security.kubernetes.io/enforce=restricted")
	h.checkLeader()
	h.exerciseOperator()
	h.exerciseRollouts()
	h.exerciseApplications()
	h.stopOperators() // these operators do not know the flow Long, and would pause its runs
	h.archive(kuberuns.Run)

	requests := h.operatorRequests()
	granted, err := deploy.Granted()
	if err != nil {
		t.Fatal(err)
	}
	given := map[string]bool{}
	for _, right := range granted {
		given[right.String()] = true
	}
	for _, right := range deploy.Unused(granted, requests) {
		if unusedRights[right.String()] == "" {
			t.Errorf("the operator has a right that it does not use: %s", right)
		}
	}
	for right := range unusedRights {
		if !given[right] {
			t.Errorf("%s is not given: it needs no reason", right)
		}
	}
	t.Logf("%d requests, %d rights, %d of them for a reason", len(requests), len(granted), len(unusedRights))
}

// forgotten is the number of audit log entries of removed operators; roles are removed
// first.
var forgotten int

// operatorRequests returns the requests of the operators so far, and checks that none was
// refused.
func (h *fixture) operatorRequests() []controlplane.Request {
	h.t.Helper()
	all, err := h.plane.Requests()
	if err != nil {
		h.t.Fatal(err)
	}
	account := "system:serviceaccount:" + h.system + ":" + h.name
	requests := slices.DeleteFunc(all[forgotten:], func(r controlplane.Request) bool { return r.User.Username != account })
	if len(requests) < 100 {
		h.t.Fatalf("the audit log has %d requests of %s: the operator used another account", len(requests), account)
	}
	for _, r := range deploy.Refused(requests) {
		h.t.Errorf("refused: %s", r)
	}
	return requests
}

// checkLeader checks that one of two operators has the lease.
func (h *fixture) checkLeader() {
	h.t.Helper()
	h.await(time.Minute, "one of two operators leads", func(context.Context) error {
		holder, err := h.try("-n", deploy.Namespace, "get", "lease", "pawl-operator", "-o", "jsonpath={.spec.holderIdentity}")
		if err != nil || holder == "" {
			return fmt.Errorf("%s: %w", holder, err)
		}
		return nil
	})
	if pods := h.operators(); len(pods) != 2 {
		h.t.Errorf("%d pods of operators, want 2", len(pods))
	}
}

// exerciseOperator runs clusters through all operations of the operator, several at once:
// the requests count here, not the database.
func (h *fixture) exerciseOperator() {
	h.t.Helper()
	h.kubectl("apply", "-f", "../../examples/sharedstorage/classes.yaml", "-f", "../../examples/sharedstorage/cluster.yaml", "-f", "../../examples/sharedstorage/mpdcluster.yaml")
	h.kubectl("patch", "ssc", "orders", "--type=merge", "-p", `{"spec":{"readers":1}}`)
	h.awaitRunning("orders", 1, nil)

	h.step("scale out and extend", func() {
		h.kubectl("patch", "ssc", "orders", "--type=merge", "-p", `{"spec":{"readers":2,"storage":{"size":"2Gi"}}}`)
		h.awaitRunning("orders", 2, nil)
	})
	h.step("switch, restart, change the class, scale in", func() {
		h.kubectl("annotate", "ssc", "orders", "pawl.dev/switch-writer=2", "pawl.dev/restart=1")
		h.kubectl("patch", "ssc", "orders", "--type=merge", "-p", `{"spec":{"readers":1,"class":{"name":"wide"}}}`)
		h.awaitRunning("orders", 1, carriedOut("switch-writer", "restart"))
	})
	h.step("what somebody deletes is put back", func() {
		for _, name := range []string{"service/orders-ro", "serviceaccount/orders.manager.pawl.dev", "role/orders.manager.pawl.dev", "rolebinding/orders.manager.pawl.dev", "pdb/orders", "configmap/orders-manager", "secret/orders-auth", "lease/orders-grant"} {
			uid := func() string {
				out, _ := h.try("get", name, "--ignore-not-found", "-o", "jsonpath={.metadata.uid}")
				return out
			}
			old := uid()
			h.kubectl("delete", name)
			h.await(time.Minute, name+" is back", func(context.Context) error {
				if now := uid(); now == "" || now == old {
					return fmt.Errorf("it is %q", now)
				}
				return nil
			})
		}
		h.awaitRunning("orders", 1, nil)
	})
	h.step("migrate", func() {
		nodes := strings.Fields(h.kubectl("get", "nodes", "-o", "jsonpath={.items[*].metadata.name}"))
		c := h.awaitRunning("orders", 1, nil)
		for id, i := range c.Status.Instances {
			if id == c.Status.Writer {
				continue
			}
			to := nodes[0]
			if to == i.Node {
				to = nodes[1]
			}
			h.kubectl("annotate", "ssc", "orders", "pawl.dev/migrate="+id+"|"+to)
		}
		h.awaitRunning("orders", 1, carriedOut("migrate"))
	})
	h.step("a request of a run that is refused", func() {
		runs := strings.Fields(h.kubectl("get", "runs", "-o", "name"))
		h.kubectl("annotate", runs[0], "pawl.dev/resume=now")
		h.await(time.Minute, "an Event reports the refusal", func(context.Context) error {
			events, err := h.try("get", "events", "-o", "jsonpath={.items[*].message}")
			if err == nil && !strings.Contains(events, "was refused") {
				err = errors.New(events)
			}
			return err
		})
	})
	h.step("a volume and a claim that are not there", func() {
		for name, storage := range map[string]v1alpha1.StorageSpec{"lost": {Volume: "no-such-volume"}, "astray": {Claim: "no-such-claim"}} {
			c := &v1alpha1.SharedStorageCluster{}
			c.Namespace, c.Name, c.Spec.Storage = h.namespace, name, storage
			if err := h.client.Create(h.t.Context(), c); err != nil {
				h.t.Fatal(err)
			}
		}
		for _, name := range []string{"lost", "astray"} {
			h.await(2*time.Minute, "cluster "+name+" is interrupted", func(ctx context.Context) error {
				c := &v1alpha1.SharedStorageCluster{}
				err := h.client.Get(ctx, client.ObjectKey{Namespace: h.namespace, Name: name}, c)
				if err == nil && !meta.IsStatusConditionTrue(c.Status.Conditions, "Interrupted") {
					err = fmt.Errorf("%s %s", c.Status.State, c.Status.Message)
				}
				return err
			})
		}
	})
	h.step("delete", func() {
		h.kubectl("wait", "--for=jsonpath={.status.clusterStatus}=Running", "mpdcluster/polar", "--timeout=4m")
		h.kubectl("delete", "ssc/orders", "ssc/lost", "ssc/astray", "mpdcluster/polar", "--timeout=4m")
	})
}

func (h *fixture) step(what string, do func()) {
	h.t.Helper()
	began := time.Now()
	do()
	h.t.Logf("%s: %s", what, time.Since(began).Round(100*time.Millisecond))
}

// archive creates a run with enough events to archive the oldest, reads them back, and
// lets retention delete the run. It uses the operator's token: the operator itself would
// do this only after a month.
func (h *fixture) archive(kind kuberuns.Kind) {
	h.t.Helper()
	path, err := deploy.KubeconfigOf(h.t.Context(), h.plane, h.system, h.name)
	if err != nil {
		h.t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(h.t.Context(), 2*time.Minute)
	defer cancel()
	store, err := kuberuns.Open(ctx, kuberuns.Options{Config: config, Kind: kind, Namespace: h.namespace, SingleNamespace: true})
	if err != nil {
		h.t.Fatal(err)
	}
	defer store.Close()
	flow := workflow.Flow{Name: "Long", Retention: &runtype.Retention{Age: 1, Keep: 1, Max: 1}}
	for n := range 90 {
		flow.Steps = append(flow.Steps, workflow.Step{Name: fmt.Sprint("Step", n), Do: func(context.Context, *workflow.Task) outcome.Outcome { return outcome.Done() }})
	}
	engine, err := workflow.New(store, []workflow.Flow{flow}, workflow.Options{})
	if err != nil {
		h.t.Fatal(err)
	}
	serving, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- engine.Serve(serving) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			h.t.Errorf("the engine: %v", err)
		}
	}()
	var last *runtype.Run
	for range 2 { // one stays
		if last, err = engine.Start(ctx, workflow.Request{Flow: "Long", Subject: "test/" + h.namespace + "/archive"}); err != nil {
			h.t.Fatal(err)
		}
	}
	h.await(time.Minute, "both runs have ended", func(ctx context.Context) error {
		run, _, err := store.Load(ctx, last.ID)
		if err == nil && run.Phase != runtype.Succeeded {
			err = errors.New(string(run.Phase))
		}
		return err
	})
	events, err := store.History(ctx, last.ID, 0, 1000)
	if err != nil || len(events) < 180 {
		h.t.Errorf("%d events, %v", len(events), err)
	}
	if n, err := engine.Retain(ctx); err != nil || n == 0 {
		h.t.Errorf("%d runs were taken away, %v", n, err)
	}
}
