package api_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
)

// Forget needs the name of the cluster and the state Expunge, and reads each resource once more.
func TestForgetting(t *testing.T) {
	c := newFixture(t, cluster.Limits{})
	id := c.make(as("uma"), "blue").UUID
	if _, err := c.Forget(t.Context(), superuser, id, "blue", ""); !errors.Is(err, cluster.StateRefused) {
		t.Errorf("in Created: %v", err)
	}
	c.put(id, cluster.Expunge, func(c *cluster.Cluster) { c.Desired = cluster.WantDestroyed })
	if _, err := c.Forget(t.Context(), superuser, id, "green", ""); !errors.Is(err, cluster.ClusterInvalid) {
		t.Errorf("with another name: %v", err)
	}
	b, _ := c.Get(t.Context(), superuser, id)
	rows := []*cluster.JournalRow{
		{Kind: cluster.VM, Name: "gone", Key: "a", ProviderID: "vm-that-never-was", Phase: cluster.Closing, Origin: cluster.OriginCreated},
		{Kind: cluster.VM, Name: "unknown", Key: "b", Phase: cluster.Leaked, Origin: cluster.OriginCreated},
		{Kind: cluster.Network, Name: "theirs", Key: "c", ProviderID: "n", Phase: cluster.Present, Origin: cluster.OriginGiven},
	}
	if err := c.records.Commit(t.Context(), &cluster.Change{ClusterID: b.Cluster.ID, Journal: rows}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PlanForget(t.Context(), as("uma"), id, "blue"); !errors.Is(err, cluster.AccessRefused) {
		t.Errorf("the plan without an operator: %v", err)
	}
	if _, err := c.PlanForget(t.Context(), superuser, id, "green"); !errors.Is(err, cluster.ClusterInvalid) {
		t.Errorf("the plan with another name: %v", err)
	}
	before, _ := c.Get(t.Context(), superuser, id)
	plan, err := c.PlanForget(t.Context(), superuser, id, "blue")
	if err != nil {
		t.Fatal(err)
	}
	acts := map[string]string{}
	for _, r := range plan.Resources {
		acts[r.Name] = r.Act
	}
	if len(acts) != 2 || acts["gone"] != "close" || acts["unknown"] != "forget" || len(plan.Steps) != 1 {
		t.Errorf("the plan: %+v", plan)
	}
	if after, _ := c.Get(t.Context(), superuser, id); !reflect.DeepEqual(before, after) {
		t.Errorf("the plan has changed the record:\n%+v\n%+v", before, after)
	}
	if _, err := c.Forget(t.Context(), superuser, id, "blue", ""); err != nil {
		t.Fatal(err)
	}
	b, _ = c.Get(t.Context(), superuser, id)
	got := map[string]cluster.Phase{}
	for _, r := range b.Journal {
		got[r.Name] = r.Phase
	}
	if got["gone"] != cluster.Gone || got["unknown"] != cluster.Forgotten || got["theirs"] != cluster.Present || !b.Cluster.Forget {
		t.Errorf("journal %v, forget %v", got, b.Cluster.Forget)
	}
	if leaks, _, _ := c.Leaks(t.Context(), superuser, "", "", 0, 0); len(leaks) != 1 || leaks[0].Resource != "unknown" {
		t.Errorf("leaks %+v", leaks)
	}
}

// The dry run of a patch has each setting that would change and the effect of a
// new size, and writes nothing.
func TestThePlanOfAPatch(t *testing.T) {
	c := newFixture(t, cluster.Limits{})
	id := c.make(as("uma"), "blue").UUID
	c.put(id, cluster.Running, func(c *cluster.Cluster) { c.Started = true })
	before, _ := c.Get(t.Context(), superuser, id)
	size, words, none := before.Cluster.NodeCount+2, "a word", cluster.Recovery{}
	for name, p := range map[string]struct {
		patch api.PatchRequest
		sets  string
	}{
		"nothing":  {api.PatchRequest{}, ""},
		"settings": {api.PatchRequest{Description: &words, Recovery: &none}, "description becomes a word, it was the default; recovery becomes none, it was the default"},
		"a size":   {api.PatchRequest{Size: &size}, "size becomes 4, it was 2"},
	} {
		plan, err := c.PlanPatch(t.Context(), as("uma"), id, p.patch)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var sets []string
		others := 0
		for _, step := range plan.Steps {
			if step.Name == "set" {
				sets = append(sets, step.Text)
			} else {
				others++
			}
		}
		if got := strings.Join(sets, "; "); got != p.sets {
			t.Errorf("%s: %q, want %q", name, got, p.sets)
		}
		if grows := p.patch.Size != nil; grows != (others > 0) || grows != (len(plan.Resources) > 0) {
			t.Errorf("%s: %d steps of a scale, resources %+v", name, others, plan.Resources)
		}
	}
	if _, err := c.PlanPatch(t.Context(), as("uma"), id, api.PatchRequest{Revision: before.Cluster.Revision + 1, Size: &size}); err == nil {
		t.Error("a plan for another revision")
	}
	if _, err := c.PlanPatch(t.Context(), as("eve"), id, api.PatchRequest{Size: &size}); !errors.Is(err, cluster.AccessRefused) {
		t.Errorf("of another's cluster: %v", err)
	}
	if after, _ := c.Get(t.Context(), superuser, id); !reflect.DeepEqual(before, after) {
		t.Errorf("the plan has changed the record:\n%+v\n%+v", before, after)
	}
}
