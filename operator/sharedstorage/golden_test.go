package sharedstorage_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/sim"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil { //nolint:gosec // it is public
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs; look at it with -update:\n%s", name, got)
	}
}

// The state machine as a Mermaid diagram.
func TestMermaid(t *testing.T) {
	op, err := sharedstorage.New(sharedstorage.Options{Store: newMemoryStore(), Ports: sim.New(sim.Options{}).Ports()})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "machine.mmd", op.Table().Mermaid())
}

// drawn formats a plan in a few lines.
func drawn(p machine.Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s %s: %s\n", p.State, p.Act, p.To, p.Event, p.Why)
	if p.Code != "" {
		fmt.Fprintf(&b, "%s: %s\n", p.Code, p.Remedy)
	}
	var input map[string]any
	_ = json.Unmarshal(p.Params, &input)
	delete(input, "started")
	delete(input, "former")
	if raw, _ := json.Marshal(input); len(input) > 0 {
		fmt.Fprintf(&b, "input %s\n", raw)
	}
	if p.Flow != nil {
		fmt.Fprintf(&b, "flow %s\n", p.Flow.Flow)
		for _, s := range p.Flow.Steps {
			fmt.Fprintf(&b, "  %s %s %s\n", s.Name, s.Decision, s.Why)
		}
	}
	return b.String()
}

// `pawl plan` for each request and each change of the spec.
func TestPlans(t *testing.T) {
	var b bytes.Buffer
	inHarness(t, setup{sim: sim.Options{}}, func(l *harness) {
		plan := func(what string, edit func(c *sharedstorage.Cluster)) {
			c := l.observe("blue")
			edit(c)
			p, err := l.op.PlanFor(l.t.Context(), c)
			l.must(err)
			fmt.Fprintf(&b, "## %s\n%s\n", what, drawn(p))
		}
		fresh := &sharedstorage.Cluster{Ref: ref("green")}
		p, err := l.op.PlanFor(l.t.Context(), fresh)
		l.must(err)
		fmt.Fprintf(&b, "## a new cluster\n%s\n", drawn(p))
		up(l, "blue")
		plan("nothing", func(*sharedstorage.Cluster) {})
		for _, r := range []string{"restart=cluster", "restart=2", "switch-writer=3", "migrate=2|node-1", "migrate=1|node-2", "remove-reader=3", "rebuild=cluster", "rebuild=2", "flush-parameters=T", "extend-storage=T", "switch-writer=1"} {
			kind, args, _ := strings.Cut(r, "=")
			plan(r, func(c *sharedstorage.Cluster) { c.Annotations = map[string]string{sharedstorage.Prefix + kind: args} })
		}
		for _, w := range []struct {
			what string
			edit func(s *v1alpha1.SharedStorageClusterSpec)
		}{
			{"class", large}, {"version", func(s *v1alpha1.SharedStorageClusterSpec) { s.Engine.Version = "15.5" }},
			{"parameters", func(s *v1alpha1.SharedStorageClusterSpec) { s.Parameters = map[string]string{"work_mem": "8MB"} }},
			{"storage", func(s *v1alpha1.SharedStorageClusterSpec) { size := resource.MustParse("20Gi"); s.Storage.Size = &size }},
			{"more readers", readers(4)}, {"fewer readers", readers(1)},
			{"a class that is not there", func(s *v1alpha1.SharedStorageClusterSpec) { s.Class.Name = "huge" }},
		} {
			plan("spec: "+w.what, func(c *sharedstorage.Cluster) { w.edit(&c.Spec) })
		}
	})
	golden(t, "plans.txt", b.String())
}

// Every fault of section 7 is declared with a remedy, and has a healer if the section names one.
func TestHealers(t *testing.T) {
	op, err := sharedstorage.New(sharedstorage.Options{Store: newMemoryStore(), Ports: sim.New(sim.Options{}).Ports()})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for code, h := range op.Healers() {
		lines = append(lines, fmt.Sprintf("%s %d times, from %q, undo %t", code, h.Limits.Attempts, h.From, h.Undo))
	}
	slices.Sort(lines)
	golden(t, "healers.txt", strings.Join(lines, "\n")+"\n")
}
