package serve

import (
	"maps"
	"slices"
	"syscall"
	"testing"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// A class and ports that are edited together restart each process once, with other parameters on the
// folder that it has: no data are copied, the rows are there, and a reader has become the writer.
func TestAClassChangeKeepsTheFolders(t *testing.T) {
	h := newFixture(t)
	spec := example(t)
	h.must(h.apply(spec))
	s := h.running(2)
	if got := h.sql(s.Instances[s.Writer], "CREATE TABLE rows AS SELECT 'one' AS n"); got != "" {
		t.Fatal(got)
	}
	// The file is written by initdb, pg_basebackup and pg_rewind only.
	copies := func(s v1alpha1.SharedStorageClusterStatus) (all []string) {
		for _, id := range slices.Sorted(maps.Keys(s.Instances)) {
			all = append(all, s.Instances[id].Name+" "+h.sql(s.Instances[id], "SELECT modification::text FROM pg_stat_file('PG_VERSION')"))
		}
		return all
	}
	before, writer := copies(s), s.Writer
	spec["class"], spec["ports"] = map[string]any{"name": "medium"}, map[string]any{"start": 15600, "step": 7}
	h.must(h.apply(spec))
	h.until("all of class medium", func(o control.Object, s v1alpha1.SharedStorageClusterStatus) bool {
		return s.Class == "medium" && s.State == "Running" && s.ObservedGeneration == o.Generation && s.Writer != ""
	})
	s = h.running(2)
	if after := copies(s); !slices.Equal(before, after) {
		t.Errorf("the data were %v and are %v", before, after)
	}
	if s.Writer == writer || s.Storage.Mode != "copies" {
		t.Errorf("the writer was %s and is %s, the mode is %s", writer, s.Writer, s.Storage.Mode)
	}
	for id, i := range s.Instances {
		h.eventually("the row on "+id, func() bool { return h.sql(i, "SELECT n FROM rows") == "one" })
		if got := h.sql(i, "SHOW max_connections"); got != "200" || i.Port < 15600 || (i.Port-15600)%7 != 0 {
			t.Errorf("instance %s at port %d has %s connections", id, i.Port, got)
		}
	}
	_, err := h.objects.Delete(t.Context(), orders, 0)
	h.must(err)
	h.eventually("its processes are gone", func() bool { return len(h.processes()) == 0 })
	h.must(h.server.Process.Signal(syscall.SIGTERM))
	h.must(h.server.Wait())
}
