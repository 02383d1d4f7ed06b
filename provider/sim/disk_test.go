package sim_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/provider/sim"
)

// A killed cloud continues from its file: it was not closed, and its last line may be
// incomplete.
func TestFile(t *testing.T) {
	at := newClock()
	o := sim.Options{File: filepath.Join(t.TempDir(), "cloud"), Now: at.now, Times: sim.Times{Stop: time.Minute}, Seed: 7}
	before := open(t, o)
	resources := newClusterNetwork(t, before)
	if _, err := before.AddForeignVM("alien", resources["net"].ID); err != nil {
		t.Fatal(err)
	}
	if err := before.DestroyVM("two"); err != nil {
		t.Fatal(err)
	}
	w := vm("three")
	w.Spec.UserData = []byte("\x00\xff bytes")
	mustMake(t, before, w)
	stop, err := before.Act(t.Context(), resources["one"].Ref(), cluster.Stop)
	if err != nil || stop.Done {
		t.Fatalf("%+v, %v", stop, err)
	}
	f, err := os.OpenFile(o.File, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString(`{"thing":{"Kind":"vm`)
	f.Close()

	after := open(t, o)
	if a, b := fmt.Sprintf("%+v", before.All()), fmt.Sprintf("%+v", after.All()); a != b {
		t.Errorf("before %s\nafter  %s", a, b)
	}
	at.at = at.at.Add(time.Minute)
	if p, err := after.Poll(t.Context(), stop); err != nil || !p.Done || p.Err != nil {
		t.Errorf("the job under way: %+v, %v", p, err)
	}
	if r, _ := after.Lookup(cluster.VM, "one"); r.Power != cluster.PoweredOff {
		t.Errorf("its VM is %s", r.State)
	}
	if call, err := after.Create(t.Context(), vm("one")); err != nil || call.Ref.ID != resources["one"].ID {
		t.Errorf("its key: %+v, %v", call, err)
	}
	again := vm("two")
	again.CallID = "another"
	if two := mustMake(t, after, again); two.ID == resources["two"].ID || two.Address == resources["two"].Address {
		t.Error("an id or address was used again")
	}
	page, err := after.List(t.Context(), cluster.Filter{}, "")
	if err != nil || len(page.Items) != 3 {
		t.Errorf("%v, %v", page.Items, err)
	}
	if info, err := os.Stat(o.File); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file, which holds tokens: %v, %v", info.Mode(), err)
	}
}

// The file does not grow with deleted resources.
func TestFileIsWrittenAnew(t *testing.T) {
	o := sim.Options{File: filepath.Join(t.TempDir(), "cloud")}
	cloud := open(t, o)
	one := mustMake(t, cloud, vm("one"))
	for i := range 3000 {
		if err := cloud.SetState(one.ID, fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(o.File)
	if err != nil || info.Size() > 1500*1000 {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
	if r, _ := open(t, o).Lookup(cluster.VM, "one"); r.State != "2999" {
		t.Errorf("state %s", r.State)
	}
}

func TestFileThatIsNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cloud")
	if err := os.WriteFile(path, []byte("no JSON\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sim.New(sim.Options{File: path}); err == nil {
		t.Error("it was read")
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "no JSON\n" {
		t.Errorf("it was changed: %q, %v", text, err)
	}
}
