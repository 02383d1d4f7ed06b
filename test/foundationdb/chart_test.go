package foundationdb_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pawl-dev/pawl/fdb/sim"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
	"github.com/pawl-dev/pawl/test/deploy"
	environment "github.com/pawl-dev/pawl/test/foundationdb"
)

// A person who has only the chart and the guide: installs the operator, creates the database, does each command of the
// guide's life, breaks it and mends it by what the guide says, makes a backup and restores it. The operator's pods run
// under the account of the chart: each right was needed, or has a reason, and nothing was refused.
func TestChart(t *testing.T) {
	whole(t)
	l := newLife(t, environment.Options{Tools: true, Kubelet: func(o *kubelet.Options) {
		own, err := controlplane.Images("")
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(o.Images, own)
	}})
	l.name = "orders"
	l.credentials()
	i := &installation{life: l}
	i.install("7.3.79")
	l.apply("../../examples/foundationdb/access.yaml")
	i.follow("Create a cluster")
	l.reconciled("created", time.Minute)
	l.write("7.3.69", "7.4.6")
	l.hurry() // a user waits
	i.follow("Change it")
	l.until("at rest", time.Minute, l.atRest)
	has("storage", 5)(l)
	i.follow("Hold and approve")
	running("7.3.79")(l)

	i.breaks()
	i.backups()
	l.remove()
	i.measure()
}

// installation is the chart on the control plane.
type installation struct {
	*life
	objects []*unstructured.Unstructured // applied last
}

// install installs the chart, or upgrades it, with the tools of these versions. What the guide does not say: the operators
// of a test listen at the addresses of their pods and find their files below their roots, and wait for a tenth.
func (i *installation) install(versions ...string) {
	i.Helper()
	arguments := append([]string{"--fdb-tools=/usr/bin/fdb"}, environment.QuickFlags...)
	var err error
	i.objects, err = deploy.Chart(i.Context(), deploy.Name, deploy.Namespace, map[string]any{
		"operators":    []string{"foundationdb"}, // so that the role is only what FoundationDB needs
		"foundationdb": map[string]any{"enabled": true, "versions": versions, "taints": true, "blobCredentialsSecret": "blob"},
		"operator":     map[string]any{"extraArgs": arguments},
	})
	i.must(err)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: deploy.Namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}
	if err := i.admin.Create(i.Context(), namespace); err == nil {
		i.Cleanup(i.uninstall)
		i.must(i.admin.Create(i.Context(), &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: deploy.Namespace, Name: "blob"}, StringData: map[string]string{"credentials.json": blobCredentials},
		}))
	}
	_, err = deploy.Kubectl(i.Context(), i.plane, i.objects, "apply", "--server-side", "--force-conflicts")
	i.must(err)
	if out, err := kubectl(i.T, deploy.Namespace, "", "rollout", "status", "deployment/"+deploy.Name, "--timeout=2m"); err != nil {
		i.Fatalf("kubectl rollout status: %v\n%s", err, out)
	}
}

// uninstall removes all but the CRDs. It tells what the operators said if the test has failed.
func (i *installation) uninstall() {
	if i.Failed() {
		pods, err := i.plane.Client().CoreV1().Pods(deploy.Namespace).List(context.Background(), metav1.ListOptions{})
		if err == nil {
			for _, p := range pods.Items {
				text, _ := os.ReadFile(i.environment.Kubelet.LogFile(deploy.Namespace, p.Name, "operator"))
				i.Logf("pod %s %s %+v said:\n%s", p.Name, p.Status.Phase, p.Status.InitContainerStatuses, text[max(0, len(text)-8000):])
			}
		}
		i.tell()
	}
	ctx := context.Background()
	rest := slices.DeleteFunc(i.objects, func(u *unstructured.Unstructured) bool { return u.GetKind() == "CustomResourceDefinition" })
	if _, err := deploy.Kubectl(ctx, i.plane, rest, "delete", "--ignore-not-found", "--wait=false"); err != nil {
		i.Error(err)
	}
	i.must(i.plane.DeleteNamespace(ctx, deploy.Namespace))
}

var lifeBlock = regexp.MustCompile("(?ms)^```sh life\n(.*?)^```$")

// follow does the commands of a section of the guide, as they stand there.
func (i *installation) follow(heading string) {
	i.Helper()
	text, err := os.ReadFile("../../docs/guide/foundationdb.md")
	i.must(err)
	_, section, found := strings.Cut(string(text), "\n## "+heading+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := lifeBlock.FindAllStringSubmatch(section, -1)
	if !found || len(blocks) == 0 {
		i.Fatalf("the guide does nothing in %q", heading)
	}
	for _, block := range blocks {
		for line := range strings.Lines(block[1]) {
			i.command(strings.TrimSpace(line))
		}
	}
}

// command runs a command of the guide in the repository. A group and a hash are those that are there.
func (i *installation) command(command string) {
	i.Helper()
	if strings.Contains(command, "storage-17") {
		command = strings.ReplaceAll(command, "storage-17", string(i.roleless()))
	}
	if strings.Contains(command, "HASH") {
		command = strings.ReplaceAll(command, "HASH", i.hash())
	}
	began := time.Now()
	out, err := i.shell(command)
	i.Logf("$ %s\n%s(%s)", command, out, time.Since(began).Round(100*time.Millisecond))
	if err != nil {
		i.Fatalf("%s: %v", command, err)
	}
	if strings.Contains(command, foundationdb.ApproveAnnotation) {
		i.until("the plan passes", time.Minute, func() error {
			if hash := i.cluster().Annotations[foundationdb.ApproveAnnotation]; hash != "" {
				return fmt.Errorf("%s is approved", hash)
			}
			return nil
		})
	}
}

func (i *installation) shell(command string) (string, error) {
	ctx, cancel := context.WithTimeout(i.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Dir = "../.."
	cmd.Env = append(os.Environ(), "KUBECONFIG="+i.kubeconfig(), "PATH="+filepath.Dir(i.plane.Binaries.Kubectl)+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// kubeconfig is that of the administrator, in the namespace of the test.
func (i *installation) kubeconfig() string {
	i.Helper()
	path := filepath.Join(i.plane.Dir(), i.namespace+".kubeconfig")
	if _, err := os.Stat(path); err == nil {
		return path
	}
	config, err := clientcmd.LoadFromFile(i.plane.Kubeconfig())
	i.must(err)
	for _, c := range config.Contexts {
		c.Namespace = i.namespace
	}
	i.must(clientcmd.WriteToFile(*config, path))
	return path
}

// hash waits for the plan of a held change, and returns its hash. What is not held is done first, and changes it.
func (i *installation) hash() (hash string) {
	i.Helper()
	var since time.Time
	i.until("held", time.Minute, func() error {
		now := ""
		for _, p := range i.cluster().Status.Plan {
			if _, after, ok := strings.Cut(p.Remedy, foundationdb.ApproveAnnotation+" to "); ok {
				now = strings.Trim(strings.Fields(after)[0], ".,;")
			}
		}
		if now == "" || now != hash {
			hash, since = now, time.Now()
		}
		if hash == "" || time.Since(since) < 5*time.Second {
			return fmt.Errorf("the plan has the hash %q since %s: %+v", hash, since, i.cluster().Status.Plan)
		}
		return nil
	})
	return hash
}

// condition waits for a condition with a reason, whose message has a text.
func (i *installation) condition(kind, reason, text string) {
	i.Helper()
	i.until(kind+" "+reason, time.Minute, func() error {
		c := meta.FindStatusCondition(i.cluster().Status.Conditions, kind)
		if c == nil || c.Reason != reason || !strings.Contains(c.Message, text) {
			return fmt.Errorf("%+v", c)
		}
		return nil
	})
}

// breaks breaks the database in the ways of the guide's table "If it does not go on", and mends it by what stands there.
func (i *installation) breaks() {
	i.Helper()
	i.command(`kubectl patch fdb orders --type merge -p '{"spec":{"version":"7.1.67"}}'`)
	i.condition(clusters.TypeReconciled, "FdbSpecInvalid", "spec.version")
	i.command("kubectl delete pod " + i.podOf(i.roleless()).Name) // it comes back all the same
	i.command(`kubectl patch fdb orders --type merge -p '{"spec":{"version":"7.3.79"}}'`)
	i.command("kubectl wait --for=condition=Reconciled fdb/orders --timeout=15m")

	i.command(`kubectl patch fdb orders --type merge -p '{"spec":{"version":"7.4.6"}}'`)
	i.condition(clusters.TypeUpgradeBlocked, "FdbToolsMissing", "7.4")
	i.install("7.3.79", "7.4.6")
	i.command("kubectl wait --for=condition=Reconciled fdb/orders --timeout=6h")
	running("7.4.6")(i.life)

	i.command(`kubectl patch fdb orders --type merge -p '{"spec":{"routing":{"useDNSInClusterFile":false,"defineDNSLocalityFields":false}}}'`)
	i.command("kubectl wait --for=condition=Reconciled fdb/orders --timeout=1h")
	named(false)(i.life)
}

// backups makes a backup, loses the data, and restores it.
func (i *installation) backups() {
	i.Helper()
	i.command("kubectl apply -f examples/foundationdb/backup.yaml")
	i.command("kubectl wait --for=condition=Ready fdbbackup/orders --timeout=10m")
	i.backup("orders", "is restorable", func(b *v1beta2.BackupDetails) bool { return b.Running && b.Restorable })
	i.command(`kubectl patch fdbbackup orders --type merge -p '{"spec":{"agentCount":1}}'`)
	i.backup("orders", "has one agent", func(b *v1beta2.BackupDetails) bool { return b.Running && b.Restorable })
	i.judge(i.caused(), 0)
	i.database(func(d *sim.Cluster) { d.Disconnect(writer) })
	want := i.keys()
	i.command(`kubectl patch fdbbackup orders --type merge -p '{"spec":{"backupState":"Stopped"}}'`)
	i.backup("orders", "is stopped", func(b *v1beta2.BackupDetails) bool { return !b.Running && b.Restorable })
	i.wipe()
	i.command("kubectl apply -f examples/foundationdb/restore.yaml")
	i.command("kubectl wait --for=condition=Ready fdbrestore/orders --timeout=6h")
	if got := i.keys(); got != want || got == 0 {
		i.Errorf("%d keys are there, want %d", got, want)
	}
	i.command("kubectl delete fdbrestore/orders fdbbackup/orders")
}

// chartUnused are the rights of the chart's role that no request needed, with the reason of each.
var chartUnused = map[string]string{
	"apps.foundationdb.org/foundationdbclusters/finalizers: update": noOwner,
	"apps.foundationdb.org/foundationdbbackups/finalizers: update":  noOwner,
	"apps.foundationdb.org/foundationdbrestores/finalizers: update": noOwner,
	"apps.foundationdb.org/foundationdbbackups: patch":              "an approval is taken away, as TestChart does with that of a cluster",
	"apps.foundationdb.org/foundationdbrestores: patch":             "as above",
	"apps.foundationdb.org/foundationdbbackups: get":                notCached,
	"pods: get":                   notCached,
	"persistentvolumeclaims: get": notCached,
	"services: get":               notCached,
	"apps/deployments: get":       notCached,
	"services: patch":             "labels of services that change",
	"apps/deployments: delete":    "a backup without agents",
	"events.k8s.io/events: patch": "an Event that is repeated within six minutes",
	"apiextensions.k8s.io/customresourcedefinitions: list":  noneLater,
	"apiextensions.k8s.io/customresourcedefinitions: watch": noneLater,
	"pawl.dev/runs: get":                      noRuns,
	"pawl.dev/runs: create":                   noRuns,
	"pawl.dev/runs: patch":                    noRuns,
	"pawl.dev/runs: delete":                   noRuns,
	"pawl.dev/runs/status: patch":             noRuns,
	"pawl.dev/runhistories: list":             noRuns,
	"pawl.dev/runhistories: create":           noRuns,
	"pawl.dev/runhistories: deletecollection": noRuns,
	"configmaps: list":                        noRuns,
	"configmaps: watch":                       noRuns,
	"configmaps: update":                      noRuns,
	"configmaps: delete":                      noRuns,
	"coordination.k8s.io/leases: patch":       noRuns,
	"coordination.k8s.io/leases: delete":      noRuns,
}

const (
	noOwner   = "asked for by OwnerReferencesPermissionEnforcement, which this plane has on: without it nothing can be owned"
	notCached = "what the cache does not know yet"
	noneLater = "operators that are not named wait for their kinds"
	noRuns    = "of runs, which no FoundationDB needs: TestRights of test/deploy"
)

// measure compares the requests of the operator with its role.
func (i *installation) measure() {
	i.Helper()
	all, err := i.plane.Requests()
	i.must(err)
	requests := slices.DeleteFunc(all, func(r controlplane.Request) bool { return r.User.Username != deploy.Account })
	if len(requests) < 100 {
		i.Fatalf("the operator has made %d requests", len(requests))
	}
	for _, r := range deploy.Refused(requests) {
		i.Errorf("refused: %s", r)
	}
	granted, err := deploy.Given(i.objects, "ClusterRole", "", deploy.Name)
	i.must(err)
	given := map[string]bool{}
	for _, right := range granted {
		given[right.String()] = true
	}
	for _, right := range deploy.Unused(granted, requests) {
		if right.Verb == "list" && slices.ContainsFunc(requests, streams(right)) {
			continue
		}
		if chartUnused[right.String()] == "" {
			i.Errorf("the operator has a right that it does not use: %s", right)
		}
	}
	for right := range chartUnused {
		if !given[right] {
			i.Errorf("%s is not given: it needs no reason", right)
		}
	}
	i.Logf("%d requests, %d rights, %d of them for a reason", len(requests), len(granted), len(chartUnused))
}
