package clusters_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

const root = "../../../"

var (
	lifeBlock = regexp.MustCompile("(?ms)^```sh life\n(.*?)^```$")
	patched   = regexp.MustCompile(`^kubectl patch fdb orders --type merge -p '(.*)'$`)
	annotated = regexp.MustCompile(`^kubectl annotate fdb orders (pawl\.dev/\w+)(?:=(\S+)|-)$`)
)

// TestGuide does what the guide says, in its order, to the example of the guide, while a client writes: each wait of
// the guide ends, and at the end nothing is lost.
func TestGuide(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(root + "docs/guide/foundationdb.md")
	if err != nil {
		t.Fatal(err)
	}
	var l *life
	for _, block := range lifeBlock.FindAllStringSubmatch(string(text), -1) {
		for command := range strings.Lines(block[1]) {
			command, _, _ = strings.Cut(strings.TrimSpace(command), " #")
			command = strings.TrimSpace(command)
			if l == nil {
				if command != "kubectl apply -f examples/foundationdb/cluster.yaml" {
					t.Fatalf("the life of the guide begins with %q", command)
				}
				l = begin(t, sim.Options{}, func(c *v1beta2.FoundationDBCluster) {
					example := &v1beta2.FoundationDBCluster{}
					text, err := os.ReadFile(root + "examples/foundationdb/cluster.yaml")
					if err == nil {
						err = yaml.UnmarshalStrict(text, example)
					}
					if err != nil {
						t.Fatal(err)
					}
					c.Spec = example.Spec
				})
				continue
			}
			l.follow(command)
		}
	}
	if l == nil {
		t.Fatal("the guide has no life")
	}
	l.settled()
	l.tidy()
	l.has("storage", 5)
	runs("7.4.6")(l)
	l.kept()
}

// follow does what a command of the guide does.
func (l *life) follow(command string) {
	l.t.Helper()
	l.say("$ %s", command)
	if m := patched.FindStringSubmatch(command); m != nil {
		l.edit(strings.ReplaceAll(m[1], "storage-17", string(l.first("storage"))))
		return
	}
	if m := annotated.FindStringSubmatch(command); m != nil {
		if m[2] == "" {
			l.edit(fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, m[1]))
			return
		}
		before := l.cluster().Annotations[foundationdb.ApproveAnnotation]
		value := m[2]
		if value == "HASH" {
			value = l.hash()
		}
		l.annotate(m[1], value)
		if m[2] == "HASH" {
			l.lasts(time.Minute)
			if now := l.cluster().Annotations[foundationdb.ApproveAnnotation]; before != "" || now != "" {
				l.fail("the plan %s did not pass: %q", value, now)
			}
		}
		return
	}
	switch {
	case command == "kubectl wait --for=condition=Reconciled fdb/orders --timeout=15m":
		l.settle(15 * time.Minute)
		l.writes(200*time.Millisecond, "7.1.67", "7.3.69", "7.4.6")
		if n := len(l.cluster().Status.ProcessGroups); l.cluster().Status.Groups != "8/8" || n != 8 {
			l.fail("the guide shows 8 groups, there are %d", n)
		}
	case strings.HasPrefix(command, "kubectl wait --for=condition=Reconciled fdb/orders --timeout="):
		limit, err := time.ParseDuration(command[strings.LastIndex(command, "=")+1:])
		if err != nil {
			l.t.Fatal(err)
		}
		l.settle(limit)
	case strings.HasPrefix(command, "kubectl get fdb orders "):
		l.lasts(5 * time.Minute) // a person reads
	default:
		l.t.Fatalf("the test does not know the command %q", command)
	}
}
