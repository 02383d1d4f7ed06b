package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/kube"
	"github.com/pawl-dev/pawl/test/await"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// kubectl runs the plugin, which uses Kubernetes: in the namespace of the context, in a
// given one, or in all.
func TestKubectlFindsThePlugin(t *testing.T) {
	w := onKubernetes(t, kuberuns.ConfigMap)
	w.dir = t.TempDir()
	for _, name := range []string{"kubectl-pawl", "kubectl_complete-pawl"} {
		if err := os.Symlink(program(t), filepath.Join(w.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	plane := suite.Plane(t)
	kubectl := func(args ...string) result {
		r := w.call(plane.Binaries.Kubectl, args...)
		t.Logf("$ kubectl %s\n%s", strings.Join(args, " "), r)
		return r
	}
	if r := kubectl("plugin", "list"); !strings.Contains(r.out, "kubectl-pawl") {
		t.Errorf("kubectl plugin list: %s", r)
	}
	if r := kubectl("pawl", "apply", "-n", w.namespace, "-f", "testdata/cluster.yaml", "--wait", "60s"); r.code != 0 || !strings.Contains(r.out, w.key("orders").String()+" created") {
		t.Fatalf("kubectl pawl apply: %s", r)
	}
	for _, word := range []string{"ssc", "sharedstorageclusters", "SharedStorageCluster"} {
		if r := kubectl("pawl", "get", word, "orders", "-n", w.namespace, "-o", "name"); r.out != w.key("orders").String()+"\n" {
			t.Errorf("kubectl pawl get %s: %s", word, r)
		}
	}
	if r := kubectl("pawl", "get", "ssc"); r.code != 0 || !strings.Contains(r.out, "no objects of kind ssc") {
		t.Errorf("another namespace than that of the context was asked: %s", r)
	}
	if r := kubectl("pawl", "get", "ssc", "-A"); !strings.Contains(r.out, w.namespace) {
		t.Errorf("kubectl pawl get -A: %s", r)
	}
	// Runs are stored as ConfigMaps here.
	if r := kubectl("pawl", "get", "runs", "-n", w.namespace, "--store", "configmap"); !strings.Contains(r.out, "CreateSharedStorageCluster") {
		t.Errorf("kubectl pawl get runs: %s", r)
	}
	if r := kubectl("pawl", "describe", "ssc", "orders", "-A", "--store", "configmap"); r.code != 1 || !strings.Contains(r.err, "OBJECT_NOT_FOUND") {
		t.Errorf("an object of another namespace: %s", r)
	}
	if r := kubectl("pawl", "plan", "ssc", "orders", "-n", w.namespace, "--store", "configmap"); r.code != 0 || !strings.Contains(r.out, w.key("orders").String()) {
		t.Errorf("kubectl pawl plan: %s", r)
	}
	for _, c := range []struct{ args, want string }{
		{"cluster list", "NOT_ON_KUBERNETES"}, {"store check", "NOT_ON_KUBERNETES"}, {"get planets", "KIND_MISSING"},
		{"run testdata/flows/gated.yaml", "NOT_ON_KUBERNETES"}, {"get --server http://127.0.0.1:1 --context x", "USAGE_WRONG"},
	} {
		if r := kubectl(append([]string{"pawl"}, strings.Fields(c.args)...)...); r.code == 0 || !strings.Contains(r.err, c.want) || !strings.Contains(r.err, "remedy: ") {
			t.Errorf("kubectl pawl %s: %s", c.args, r)
		}
	}
	if r := kubectl("__complete", "pawl", "get", "ssc", "-n", w.namespace, ""); !strings.Contains(r.out, "orders") {
		t.Errorf("the completion of a name: %s", r)
	}
	if r := kubectl("__complete", "pawl", "get", "-n", ""); !strings.Contains(r.out, w.namespace) {
		t.Errorf("the completion of a namespace: %s", r)
	}
}

// A given context is used with its namespace, not the current context, which points
// nowhere here.
func TestAnotherContext(t *testing.T) {
	w := onKubernetes(t, kuberuns.Run)
	config, err := clientcmd.LoadFromFile(suite.Plane(t).Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	there := config.Contexts[config.CurrentContext].DeepCopy()
	there.Namespace = w.namespace
	config.Contexts["there"] = there
	config.Clusters["nowhere"] = &clientcmdapi.Cluster{Server: "https://127.0.0.1:1", InsecureSkipTLSVerify: true}
	config.Contexts["here"] = &clientcmdapi.Context{Cluster: "nowhere", AuthInfo: there.AuthInfo, Namespace: "elsewhere"}
	config.CurrentContext = "here"
	w.dir = t.TempDir()
	file := filepath.Join(w.dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program(t), filepath.Join(w.dir, "kubectl-pawl")); err != nil {
		t.Fatal(err)
	}
	w.env = []string{"KUBECONFIG=" + file}
	for _, c := range []struct {
		program string
		env     []string
		args    string
		want    string
		code    int
	}{
		{w.program, nil, "apply -f testdata/cluster.yaml --context there --wait 60s", w.key("orders").String() + " created", 0},
		{w.program, nil, "get ssc --context there -o name", w.key("orders").String() + "\n", 0},
		{w.program, []string{"PAWL_CONTEXT=there"}, "get ssc -o name", w.key("orders").String() + "\n", 0},
		{w.program, []string{"PAWL_CONTEXT=nowhere"}, "get ssc -o name --context there", w.key("orders").String() + "\n", 0},
		{suite.Plane(t).Binaries.Kubectl, nil, "pawl get ssc -o name --context there", w.key("orders").String() + "\n", 0},
		{w.program, nil, "get ssc --context there -n default", "no objects of kind ssc", 0},
		{w.program, nil, "get ssc --context there -A -o name", w.key("orders").String() + "\n", 0},
		{w.program, nil, "get ssc --kubernetes", "127.0.0.1:1", 1},
		{w.program, nil, "get ssc --context nowhere", "not found for specified context: nowhere", 2},
	} {
		with := *w
		with.env = slices.Concat(w.env, c.env)
		r := with.call(c.program, strings.Fields(c.args)...)
		if r.code != c.code || !strings.Contains(r.out+r.err, c.want) {
			t.Errorf("%v %s: want %q and exit %d: %s", c.env, c.args, c.want, c.code, r)
		}
		t.Logf("$ pawl %s\n%s", c.args, r)
	}
}

// Annotations of a cluster are requests to its run: for both kinds, with the answer in
// status.
func TestAnnotationsOfAClusterAskItsRun(t *testing.T) {
	w := onKubernetes(t, kuberuns.Run)
	client := dynamic.NewForConfigOrDie(suite.Plane(t).Config())
	for _, c := range []struct {
		kind     string
		resource schema.GroupVersionResource
		last     func(o *unstructured.Unstructured) map[string]any
	}{
		{sharedstorage.Kind, schema.GroupVersionResource{Group: "pawl.dev", Version: "v1alpha1", Resource: "sharedstorageclusters"}, func(o *unstructured.Unstructured) map[string]any {
			last, _, _ := unstructured.NestedMap(o.Object, "status", "lastRequest")
			return last
		}},
		{kube.MPDKind, schema.GroupVersionResource{Group: "mpd.polardb.aliyun.com", Version: "v1", Resource: "mpdclusters"}, func(o *unstructured.Unstructured) map[string]any {
			var status struct{ LastRequest map[string]any }
			_ = json.Unmarshal([]byte(o.GetAnnotations()[kube.MPDStatus]), &status) // nothing yet
			return status.LastRequest
		}},
	} {
		t.Run(c.kind, func(t *testing.T) {
			at, name := client.Resource(c.resource).Namespace(w.namespace), "asked"
			o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": c.resource.GroupVersion().String(), "kind": c.kind, "metadata": map[string]any{"name": name}, "spec": map[string]any{"operatorName": "another"}}}
			if c.kind == sharedstorage.Kind {
				o.Object["spec"] = map[string]any{"engine": map[string]any{"type": "postgres", "version": "15"}, "class": map[string]any{"name": "nowhere"}, "storage": map[string]any{"size": "1Gi"}}
			} else {
				o.Object["spec"] = map[string]any{"dbClusterType": "share", "classInfo": map[string]any{"className": "nowhere"}, "followerNum": int64(1)}
			}
			created, err := at.Create(t.Context(), o, metav1.CreateOptions{})
			if err != nil {
				t.Fatal(err)
			}
			subject := fmt.Sprintf("%s/%s/%s/%s", c.kind, w.namespace, name, created.GetUID())
			r, err := w.engine.Start(t.Context(), workflow.Request{Flow: "Gated", Subject: subject, RequestID: "one"})
			if err != nil {
				t.Fatal(err)
			}
			annotate := func(key, value string) {
				t.Helper()
				patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, "pawl.dev/"+key, value)
				if _, err := at.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			answered := func(key, verb string) (last map[string]any) {
				t.Helper()
				await.Until(t, 2*time.Minute, "an answer to "+verb, func(ctx context.Context) error {
					o, err := at.Get(ctx, name, metav1.GetOptions{})
					if err != nil {
						return err
					}
					if last = c.last(o); last["verb"] != verb || o.GetAnnotations()["pawl.dev/"+key] != "" {
						return fmt.Errorf("status says %v, annotations are %v", last, o.GetAnnotations())
					}
					return nil
				})
				return last
			}
			phase := func(want runtype.Phase) {
				t.Helper()
				await.Until(t, 2*time.Minute, "the run is "+string(want), func(ctx context.Context) error {
					now, err := w.engine.Get(ctx, r.ID)
					if err == nil && now.Phase != want {
						err = fmt.Errorf("it is %s", now.Phase)
					}
					return err
				})
			}
			annotate("pause", "true")
			if last := answered("pause", "pause"); last["state"] != "Accepted" || last["id"] == "" {
				t.Errorf("the answer is %v", last)
			}
			phase(runtype.Paused)
			annotate("resume", "r1,from=Nowhere")
			if last := answered("resume", "resume"); last["state"] != "Refused" || last["code"] != "REQUEST_REFUSED" || last["remedy"] == "" {
				t.Errorf("the answer is %v", last)
			}
			await.Until(t, 2*time.Minute, "the Event", func(ctx context.Context) error {
				events, err := w.client().CoreV1().Events(w.namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=" + c.kind + ",reason=RequestRefused"})
				if err == nil && (len(events.Items) == 0 || !strings.Contains(events.Items[0].Message, "resume r1 was refused")) {
					err = fmt.Errorf("the Events are %v", events.Items)
				}
				return err
			})
			annotate("resume", "r2")
			answered("resume", "resume")
			annotate("cancel", "c1,drop")
			answered("cancel", "cancel")
			phase(runtype.Cancelled)
		})
	}
}

// An impossible spec stops its run on a real API server: waiting commands report it, and a
// corrected file is enough to continue.
func TestFinding14AMendedFileNeedsNoCommand(t *testing.T) {
	w := onKubernetes(t, kuberuns.Run)
	text, err := os.ReadFile("testdata/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	apply := func(parameters string) result {
		if err := os.WriteFile(file, append(slices.Clip(text), parameters...), 0o600); err != nil {
			t.Fatal(err)
		}
		r := w.call(w.program, "apply", "-f", file, "-n", w.namespace, "--kubernetes", "--wait", "90s")
		t.Logf("$ pawl apply, %q\n%s", parameters, r)
		return r
	}
	if r := apply(""); r.code != 0 {
		t.Fatal(r)
	}
	if r := apply("  parameters: {bad_one: \"1\"}\n"); r.code != 4 || !strings.Contains(r.out, "PARAMETER_INVALID") || !strings.Contains(r.out, "remedy: ") {
		t.Errorf("a parameter that no engine knows: %s", r)
	}
	if r := apply("  parameters: {work_mem: 8MB}\n"); r.code != 0 {
		t.Errorf("the mended file: %s", r)
	}
	if r := w.call(w.program, "get", "ssc", "orders", "-n", w.namespace, "--kubernetes", "-o", "json"); !strings.Contains(r.out, `"state": "Running"`) {
		t.Errorf("the cluster: %s", r)
	}
	if r := w.call(w.program, "get", "runs", "-n", w.namespace, "--kubernetes"); !strings.Contains(r.out, "Cancelled") {
		t.Errorf("the run of the withdrawn change: %s", r)
	}
}
