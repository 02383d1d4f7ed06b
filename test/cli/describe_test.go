package cli_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/sim"
	"github.com/pawl-dev/pawl/test/await"
)

// `kubectl describe` of a cluster and of its run says, without pawl, what its state is,
// why it waits, and what to do when it has stopped.
func TestKubectlDescribeSaysWhatToDo(t *testing.T) {
	w := onKubernetes(t, kuberuns.Run)
	kubectl := func(args ...string) result {
		return w.call(suite.Plane(t).Binaries.Kubectl, append([]string{"-n", w.namespace}, args...)...)
	}
	describe := func(args []string, wanted ...string) {
		t.Helper()
		var text string
		await.Until(t, 2*time.Minute, fmt.Sprintf("kubectl describe %v", args), func(context.Context) error {
			r := kubectl(append([]string{"describe"}, args...)...)
			text = r.String()
			said := regexp.MustCompile(` +`).ReplaceAllString(r.out, " ")
			for _, want := range wanted {
				if r.code != 0 || !strings.Contains(said, want) {
					return fmt.Errorf("it does not contain %q:\n%s", want, r)
				}
			}
			return nil
		})
		t.Logf("$ kubectl describe %s\n%s", strings.Join(args, " "), text)
	}
	ssc := []string{"ssc", "orders"}
	for n, args := range [][]string{
		{"apply", "-f", "testdata/cluster.yaml"},
		{"wait", "--for=condition=Ready", "ssc/orders", "--timeout=120s"},
		{"wait", "--for=jsonpath={.status.state}=Running", "ssc/orders", "--timeout=120s"},
	} {
		if r := kubectl(args...); r.code != 0 {
			t.Fatalf("%d: kubectl %v: %s", n, args, r)
		}
	}
	describe(ssc, "State: Running", "all that was asked for is done", " Normal Create ", "Creating: the cluster is to be made")

	// No node can run a fourth instance: the run waits.
	w.sim.SetCapacity(1)
	if r := kubectl("patch", "ssc", "orders", "--type=merge", "-p", `{"spec":{"readers":3}}`); r.code != 0 {
		t.Fatal(r)
	}
	waits := regexp.MustCompile(`run (\S+) is at step (\S+): (instance \S+ waits for a node)`)
	var run, step, why string
	await.Until(t, 2*time.Minute, "a run that waits", func(context.Context) error {
		r := kubectl("describe", "ssc", "orders")
		m := waits.FindStringSubmatch(r.out)
		if m == nil {
			return fmt.Errorf("none: %s", r)
		}
		run, step, why = m[1], m[2], m[3]
		return nil
	})
	if !strings.HasPrefix(step, "Readers[") {
		t.Errorf("it waits at step %s", step)
	}
	describe(ssc, "State: ScalingOut", "Type: Progressing", "Reason: ScalingOut", "Phase: Waiting", "Step: "+step, why)
	runs := strings.Fields(kubectl("get", "runs", "-o", "name").out)
	object := ""
	for _, name := range runs {
		if strings.HasPrefix(strings.TrimPrefix(name, "run.pawl.dev/"), run) {
			object = strings.TrimPrefix(name, "run.pawl.dev/")
		}
	}
	if object == "" {
		t.Fatalf("run %s is none of %v", run, runs)
	}
	describe([]string{"run", object}, "Phase: Waiting", "Step: "+step, "Reason: PodUnscheduled", "Message: "+why)

	// The infrastructure refuses it: the run is paused, and describe says how to continue.
	w.sim.Inject(sim.Rule{Port: "Instances", Method: "Ensure", Do: sim.Fail, Err: port.VersionUnsupported.Errorf("there is no image of version 15")})
	message := "there is no image of version 15"
	describe([]string{"run", object}, "Phase: Paused", "Step: "+step, "Code: VERSION_UNSUPPORTED", "Message: "+message, "Remedy: "+port.VersionUnsupported.Remedy,
		" Warning VersionUnsupported ", "the run is paused at step "+step+": "+message+". Remedy: "+port.VersionUnsupported.Remedy)
	describe(ssc, "State: Interrupted", "Type: Interrupted", "Reason: VersionUnsupported", "Message: VERSION_UNSUPPORTED: step "+step+": "+message+". "+port.VersionUnsupported.Remedy,
		"Step: "+step, "Code: VERSION_UNSUPPORTED", "Remedy: "+port.VersionUnsupported.Remedy, " Warning VersionUnsupported ", "Interrupted: step "+step+": "+message)
}
