package cli_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
)

// changing are the parts of the output that differ between two runs of a script.
var changing = []struct{ what, as string }{
	{`object/\S+/[a-z2-7]{26}/[0-9a-f-]{36}`, "one"}, // the object of the run is the request
	{`accepted [a-z2-7]{4}\b`, "accepted RUN"},
	{`[a-z2-7]{26}`, "RUNID"},
	{`orders-\d-[a-z0-9]{5}`, "INSTANCE"},
	{`(?m)^( *)[a-z2-7]{4} ( *)([A-Z]\w+ +\w+/)`, "$1 RUN $2$3"},
	{`(key:operator:)?cli-[a-z2-7]{16}`, "REQUEST"}, // a server puts the account before the id
	{`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, "UID"},
	{`\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?`, "TIME"},
	{`\d\d:\d\d:\d\d(\.\d+)?Z?`, "TIME"},
	{`\b\d+(\.\d+)?(ms|s|m)\b( ago)?`, "SPAN"},
	{`SPANSPAN`, "SPAN"},
	{`(?m)^ *"selector": "pawl.dev/cluster=.*\n`, ""}, // of the subresource scale, which Kubernetes has
	{`"revision": \d+`, `"revision": N`},
	{`(?i)(revision|epoch|generation):? +\d+`, "$1 N"},
	{` of namespace \S+ has the id (\w+); -n NAMESPACE looks elsewhere, -A everywhere`, " has the id $1"},
	{`─+`, "─"},
	{` +`, " "},
}

func normalize(text, run string) string {
	if run != "" {
		text = strings.ReplaceAll(text, run, "RUNID")
		for n := 25; n >= 4; n-- {
			text = regexp.MustCompile(`\b`+run[:n]+`\b…?`).ReplaceAllString(text, "RUN")
		}
	}
	for _, c := range changing {
		text = regexp.MustCompile(c.what).ReplaceAllString(text, c.as)
	}
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	return strings.Join(lines, "\n")
}

// line is one command of a script. RUN is the run of a subject; NS the namespace.
type line struct {
	args    string
	until   string // repeat until the output contains this; do not compare it
	observe bool   // the output changes by itself: repeat until both backends print the same
	code    int
}

// execute runs a line on this backend; an error fails the test.
func (w *fixture) execute(subject string, l line) (result, string, error) {
	text, run := strings.ReplaceAll(l.args, "NS", w.namespace), ""
	if strings.Contains(text, "RUN") {
		r := w.pawl("get", "runs", "-n", w.namespace, "--subject", strings.ReplaceAll(subject, "NS", w.namespace), "-o", "name", "--limit", "1")
		if run = strings.TrimSpace(r.out); run == "" {
			return r, "", fmt.Errorf("%s: %s has no run: %s", w.name, subject, r)
		}
	}
	args := splitWords(strings.ReplaceAll(text, "RUN", run))
	if l.until != "" {
		r, err := w.await(l.until, args...)
		return r, "", err
	}
	r := w.pawl(args...)
	if r.code != l.code {
		return r, "", fmt.Errorf("%s: pawl %s ended with %d, want %d\n%s", w.name, text, r.code, l.code, r)
	}
	return r, normalize(r.out, run) + normalize(r.err, run), nil
}

// splitWords splits a command at spaces; _ stands for a space within a word.
func splitWords(text string) []string {
	all := strings.Fields(text)
	for i := range all {
		all[i] = strings.ReplaceAll(all[i], "_", " ")
	}
	return all
}

// compareOutputs runs a script on both backends, line by line, and compares the output.
func compareOutputs(t *testing.T, subject string, script []line, fixtures ...*fixture) {
	t.Helper()
	for _, l := range script {
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
			said, errs := make([]string, len(fixtures)), make([]error, len(fixtures))
			var all sync.WaitGroup
			for n, w := range fixtures {
				all.Go(func() { _, said[n], errs[n] = w.execute(subject, l) })
			}
			all.Wait()
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			diff := cmp.Diff(said[0], said[1])
			if diff != "" && l.observe && time.Now().Before(deadline) {
				continue
			}
			if diff != "" {
				t.Errorf("pawl %s: %s prints something else than %s (-, +):\n%s", l.args, fixtures[1].name, fixtures[0].name, diff)
			}
			if l.until == "" {
				t.Logf("$ pawl %s\n%s", l.args, said[0])
			}
			break
		}
	}
}

// The lifecycle of a run: the same commands with the same output, refusals and exit
// codes on both backends.
func TestRunsLookTheSame(t *testing.T) {
	kube := onKubernetes(t, kuberuns.Run)
	fixtures := []*fixture{standalone(t, kube.namespace), kube}
	compareOutputs(t, "demo/NS/a", []line{
		{args: "get -n NS"},
		{args: "run Gated --subject demo/NS/a --input n=2 --request-id one -n NS --detach"},
		{args: "get RUN -n NS", until: `.`},
		{args: "describe RUN -n NS", until: `never`},
		{args: "get run RUN -n NS"},
		{args: "get runs -n NS --active"},
		{args: "get runs -n NS --phase waiting --subject demo/NS/a"},
		{args: "get runs -n NS --phase paused"},
		{args: "describe RUN -n NS"},
		{args: "pause RUN -n NS --reason lunch"},
		{args: "describe RUN -n NS"},
		{args: "watch RUN -n NS", code: 4},
		{args: "progress RUN Nowhere 1/2 -n NS", code: 1},
		{args: "resume RUN -n NS --from Nowhere", code: 1},
		{args: "skip RUN Second -n NS", code: 1},
		{args: "resume RUN -n NS --reason back"},
		{args: "describe RUN -n NS", until: `Waiting`},
		{args: "skip RUN First -n NS --reason not_needed"},
		{args: "describe RUN -n NS", until: `Second +Waiting`},
		{args: "progress RUN Second 3/10 -n NS --text three_of_ten"},
		{args: "describe RUN -n NS", until: `three of ten`},
		{args: "signal RUN go -n NS --id g1 --data {\"lag\":0} --wait 30s"},
		{args: "describe RUN -n NS"},
		{args: "history RUN -n NS"},
		{args: "get run RUN -n NS -o yaml"},
		{args: "pause RUN -n NS", code: 1},
		{args: "get run zzzz -n NS", code: 1},
		{args: "get run zzzz -n NS -o json", code: 1},
		{args: "get runs --phase sleeping -n NS", code: 2},
	}, fixtures...)
	compareOutputs(t, "demo/NS/b", []line{
		{args: "run Gated --subject demo/NS/b --request-id two -n NS --detach", until: `accepted`},
		{args: "get runs -n NS --subject demo/NS/b", until: `Waiting`},
		{args: "cancel RUN --undo --reason enough -n NS"},
		{args: "history RUN -n NS"},
		{args: "get runs -n NS --active"},
	}, fixtures...)
}

// A cluster on shared storage: applied, read, changed, annotated, deleted.
func TestObjectsLookTheSame(t *testing.T) {
	kube := onKubernetes(t, kuberuns.Run)
	fixtures := []*fixture{standalone(t, kube.namespace), kube}
	compareOutputs(t, "SharedStorageCluster/NS/orders", []line{
		{args: "get SharedStorageCluster -n NS"},
		{args: "get SharedStorageCluster orders -n NS", code: 1},
		{args: "apply -f testdata/cluster.yaml -n NS"},
		{args: "get SharedStorageCluster orders -n NS", until: `orders +Running`},
		{args: "get SharedStorageCluster -n NS -l tier=gold", observe: true},
		{args: "get SharedStorageCluster -n NS -l tier=silver"},
		{args: "get all -n NS -o name"},
		{args: "describe SharedStorageCluster orders -n NS", observe: true},
		{args: "apply -f testdata/cluster.yaml -n NS --wait 60s", until: `orders unchanged`},
		{args: "annotate SharedStorageCluster orders team=blue -n NS"},
		{args: "annotate SharedStorageCluster orders team=red -n NS", code: 2},
		{args: "annotate SharedStorageCluster orders team- -n NS"},
		{args: "edit SharedStorageCluster orders -n NS", until: `orders changed`}, // not while its status is written
		{args: "get SharedStorageCluster -n NS -l tier=silver -o name"},
		{args: "edit SharedStorageCluster orders -n NS"},
		{args: "annotate SharedStorageCluster orders pawl.dev/switch-writer=9 -n NS"},
		{args: "describe SharedStorageCluster orders -n NS -o json", until: `INSTANCE_UNKNOWN`},
		{args: "apply -f testdata/more.yaml -n NS"},
		{args: "describe SharedStorageCluster orders -n NS -o json", until: `"readers": 2,\n +"requests"`},
		{args: "get SharedStorageCluster orders -n NS", until: `orders +Running`},
		{args: "history SharedStorageCluster orders -n NS", until: `RunSucceeded`},
		{args: "get runs -n NS --subject SharedStorageCluster/NS/orders", observe: true},
		{args: "delete SharedStorageCluster orders -n NS --wait 60s", until: `orders is gone`},
		{args: "get SharedStorageCluster orders -n NS", code: 1},
		{args: "delete SharedStorageCluster orders -n NS", code: 1},
		{args: "delete SharedStorageCluster orders -n NS --ignore-not-found"},
	}, fixtures...)
}
