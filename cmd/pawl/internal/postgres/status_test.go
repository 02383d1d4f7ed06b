package postgres

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/view"
)

var update = flag.Bool("update", false, "write the golden files anew")

var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// read returns the cluster of a file in testdata, and what its writer says.
func read(t *testing.T, name string) (*cluster, *replication) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var in struct {
		Spec, Status json.RawMessage
		Writer       *replication
	}
	if err := json.Unmarshal(text, &in); err != nil {
		t.Fatal(err)
	}
	c := &cluster{now: func() time.Time { return noon }}
	if err := c.set(control.Object{Ref: control.Ref{Kind: "SharedStorageCluster", Namespace: "shop", Name: "orders"}, Spec: in.Spec, Status: in.Status}); err != nil {
		t.Fatal(err)
	}
	return c, in.Writer
}

// Each screen is a golden file: what is wrong, why, and what to do.
func TestStatusOnOneScreen(t *testing.T) {
	for _, test := range []struct {
		name string
		exit int
	}{{"healthy", 0}, {"oneNode", 4}, {"interrupted", 4}, {"switching", 3}, {"unserved", 4}} {
		t.Run(test.name, func(t *testing.T) {
			c, live := read(t, test.name)
			s := c.statusOf(live)
			if live == nil {
				s.Unasked = "no instance takes writes"
			}
			golden := filepath.Join("testdata", test.name+".txt")
			text := s.Text(noon, view.Style{})
			if *update {
				if err := os.WriteFile(golden, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || string(want) != text {
				t.Errorf("%v: got\n%s", err, text)
			}
			if s.Exit() != test.exit {
				t.Errorf("exit code %d, not %d", s.Exit(), test.exit)
			}
			if strings.Count(text, "\n") > 50 {
				t.Errorf("%d lines are more than one screen", strings.Count(text, "\n"))
			}
		})
	}
}

// Each reason that the operator gives for a condition that is not as it should be has a remedy here, or is a fault,
// which brings its own.
func TestEveryReasonHasARemedy(t *testing.T) {
	fine := []string{"WriterReady", "EnoughReaders", "Rests", "FailoverOn", "VolumeReady", "NotInterrupted", "Deciding", "EndingRun", "Deleted", "Interrupted", "Volume"}
	found := map[string]bool{}
	for _, file := range []string{"condition.go", "failover.go"} {
		text, err := os.ReadFile(filepath.Join("../../../../operator/sharedstorage", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`metav1\.Condition(?:False|Unknown), "(\w+)"|return "([A-Z]\w+)", `).FindAllStringSubmatch(string(text), -1) {
			found[m[1]+m[2]] = true
		}
	}
	if len(found) < 12 {
		t.Fatalf("only %v were read", found)
	}
	for reason := range found {
		if _, isFault := fault.Lookup(reason); remedies[reason] == "" && !isFault && !slices.Contains(fine, reason) {
			t.Errorf("the reason %s has no remedy", reason)
		}
	}
}

func TestChoose(t *testing.T) {
	c, _ := read(t, "oneNode")
	for _, test := range []struct {
		id     string
		reader bool
		want   string
	}{{"", false, "1"}, {"", true, "2"}, {"3", false, "3"}, {"orders-3-ccccc", false, "3"}, {"9", false, "INSTANCE_UNKNOWN"}} {
		i, err := c.choose(test.id, test.reader)
		got := i.id
		if err != nil {
			got = string(fault.Of(err).Code)
		}
		if got != test.want {
			t.Errorf("choose(%q, %t) is %s, not %s", test.id, test.reader, got, test.want)
		}
	}
	c, _ = read(t, "unserved")
	if _, err := c.choose("", false); fault.Of(err) != NoWriter {
		t.Errorf("a cluster without instances: %v", err)
	}
}

func TestPromotion(t *testing.T) {
	c, _ := read(t, "oneNode")
	what, err := c.promotion("2")
	if err != nil || what.kind != "switch-writer" || what.args != "2" || !strings.Contains(strings.Join(what.does, "\n"), "instance 1 stops") {
		t.Errorf("%+v, %v", what, err)
	}
	for id, want := range map[string]fault.Code{"1": "INSTANCE_IS_WRITER", "t-6f2c": "INSTANCE_UNKNOWN", "9": "INSTANCE_UNKNOWN"} {
		if _, err := c.promotion(id); fault.Of(err).Code != want {
			t.Errorf("promote %s: %v", id, err)
		}
	}
}
