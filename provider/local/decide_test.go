package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/provider/local/internal/host"
	"github.com/pawl-dev/pawl/provider/local/node"
)

// The state of a VM for each combination of files, processes and health.
func TestDecideState(t *testing.T) {
	now := time.Unix(1000, 0)
	own, old := host.Process{Boot: "b", PID: 7, Start: "70"}, host.Process{Boot: "b", PID: 7, Start: "7"}
	for _, c := range []struct {
		name  string
		facts facts
		want  string
	}{
		{"nothing", facts{}, stopped},
		{"it was stopped", facts{halt: mark{Process: old}, launch: mark{Process: old}}, stopped},
		{"it was started, and is no more", facts{launch: mark{At: now, Process: own}}, stopped},
		{"some process is the node, and nobody knows which", facts{held: true}, silent},
		{"its files are lost, and it answers", facts{held: true, healthy: true}, running},
		{"just started", facts{alive: true, process: own, launch: mark{At: now, Process: own}}, starting},
		{"started long ago, and silent", facts{alive: true, process: own, launch: mark{At: now.Add(-20 * time.Second), Process: own}}, silent},
		{"silent, and nobody knows who started it", facts{alive: true, process: own}, silent},
		{"silent, and another was started", facts{alive: true, process: own, launch: mark{At: now, Process: old}}, silent},
		{"it answers", facts{alive: true, healthy: true, process: own}, running},
		{"it answers after SIGTERM", facts{alive: true, healthy: true, process: own, halt: mark{Process: own}}, stopping},
		{"it hangs after SIGTERM", facts{alive: true, process: own, halt: mark{Process: own}}, stopping},
		{"it answers, and its predecessor got SIGTERM", facts{alive: true, healthy: true, process: own, halt: mark{Process: old}}, running},
		{"it answers, and its process is not to be found", facts{healthy: true}, running},
	} {
		c.facts.now, c.facts.grace = now, 20*time.Second
		if got := decideState(c.facts); got.state != c.want {
			t.Errorf("%s: %s, want %s", c.name, got.state, c.want)
		}
	}
	for _, state := range []string{running, starting, stopping, stopped, silent, unread} {
		if powers[state] == "" {
			t.Errorf("%s has no power", state)
		}
	}
}

// Stopped VMs count for the limits of the machine.
func TestCheckCapacity(t *testing.T) {
	p := open(t, Options{MaxVMs: 3, Cores: 4, MemoryMB: 4096})
	small, backend := p.options.Offerings[0], p.options.Offerings[1]
	vm := func(o Offering) *record { return &record{Cores: o.Cores, MemoryMB: o.MemoryMB} }
	for _, c := range []struct {
		name string
		vms  []*record
		n    int
		o    Offering
		full string // the resource that is exhausted
	}{
		{"an empty machine", nil, 3, small, ""},
		{"too many", nil, 4, small, "VMs"},
		{"one more", []*record{vm(small), vm(small)}, 1, small, ""},
		{"one too many", []*record{vm(small), vm(small), vm(small)}, 1, small, "VMs"},
		{"cores to the last", []*record{vm(backend)}, 1, backend, ""},
		{"cores", []*record{vm(backend), vm(small)}, 1, backend, "cores"},
		{"memory", []*record{vm(Offering{Cores: 1, MemoryMB: 4000})}, 1, small, "memory"},
		{"nothing more", []*record{vm(backend), vm(backend)}, 0, backend, ""},
	} {
		err := p.checkCapacity(c.vms, c.n, c.o)
		if (err == nil) != (c.full == "") || err != nil && (fault.Of(err) != cluster.CapacityExhausted || !strings.Contains(err.Error(), c.full)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Ten VMs are requested and there is capacity for five.
func TestCapacityEnds(t *testing.T) {
	p := open(t, Options{Cores: 5})
	for i := range 10 {
		_, err := p.Create(t.Context(), want(fmt.Sprint(i)))
		if got := fault.Of(err) == cluster.CapacityExhausted; got != (i >= 5) {
			t.Errorf("VM %d: %v", i, err)
		}
	}
	if vms, err := p.data.list(cluster.VM, ""); err != nil || len(vms) != 5 {
		t.Errorf("%d VMs, %v", len(vms), err)
	}
	findings, err := p.Check(t.Context(), cluster.Need{Nodes: 1, Network: "network-x", KeyPair: "k"})
	if err != nil || len(findings) != 3 {
		t.Errorf("check: %+v, %v", findings, err)
	}
}

func TestWantsThatAreRefused(t *testing.T) {
	p := open(t, Options{})
	for name, change := range map[string]func(*cluster.DesiredResource){
		"offering": func(w *cluster.DesiredResource) { w.Spec.Offering = "huge" },
		"template": func(w *cluster.DesiredResource) { w.Spec.Template = "etcd" },
		"zone":     func(w *cluster.DesiredResource) { w.Spec.Zone = "moon" },
		"network":  func(w *cluster.DesiredResource) { w.Spec.Network = "network-000000000000000000000000" },
		"path":     func(w *cluster.DesiredResource) { w.Spec.Network = "../../../etc" },
		"kind":     func(w *cluster.DesiredResource) { w.Kind = cluster.Firewall },
	} {
		w := want(name)
		change(&w)
		if _, err := p.Create(t.Context(), w); fault.Of(err) != cluster.ProviderRefused {
			t.Errorf("%s: %v", name, err)
		}
	}
	if vms, err := p.data.list(cluster.VM, ""); err != nil || len(vms) > 0 {
		t.Errorf("something was created: %v, %v", vms, err)
	}
	for _, id := range []string{"../x", "vm-", "vm-zz", "network-0", "/etc/passwd", "vm-000000000000000000000000/../x"} {
		if _, err := p.Get(t.Context(), cluster.Ref{ID: id}); !isGone(err) {
			t.Errorf("get %q: %v", id, err)
		}
	}
	if _, err := p.Get(t.Context(), cluster.Ref{Name: "a"}); isGone(err) || err == nil {
		t.Errorf("get without an id proves nothing: %v", err)
	}
	if _, err := New(Options{}); fault.Of(err) != cluster.ProviderRefused {
		t.Errorf("no directory: %v", err)
	}
}

// The same key creates the same id; another key, cluster, installation or kind creates
// another one.
func TestIDs(t *testing.T) {
	base := want("a")
	if idOf(base) != idOf(want("a")) {
		t.Error("the id is not that of the key")
	}
	seen := map[string]string{idOf(base): "base"}
	for name, change := range map[string]func(*cluster.DesiredResource){
		"key":          func(w *cluster.DesiredResource) { w.Key = "b" },
		"kind":         func(w *cluster.DesiredResource) { w.Kind = cluster.Network },
		"cluster":      func(w *cluster.DesiredResource) { w.Tags[cluster.TagCluster] = "red" },
		"installation": func(w *cluster.DesiredResource) { w.Tags[cluster.TagInstallation] = "x" },
		"no key":       func(w *cluster.DesiredResource) { w.Key = "" },
		"no key again": func(w *cluster.DesiredResource) { w.Key = "" },
	} {
		w := want("a")
		change(&w)
		id := idOf(w)
		if other := seen[id]; other != "" || !idPattern.MatchString(id) {
			t.Errorf("%s has the id of %s: %s", name, other, id)
		}
		seen[id] = name
	}
}

// Every VM has its own address in the range of its network, or its own ports.
func TestAddresses(t *testing.T) {
	p := open(t, Options{})
	var vms []*record
	for range 40 {
		at, err := p.freeListenAddrs("127.64.7.0/24", vms)
		if err != nil {
			t.Fatal(err)
		}
		if host, _, err := net.SplitHostPort(at.health); err != nil || host != at.address || !strings.HasPrefix(at.address, "127.64.7.") {
			t.Errorf("%+v, %v", at, err)
		}
		if slices.ContainsFunc(vms, func(r *record) bool { return r.Address == at.address }) {
			t.Errorf("%s was given twice", at.address)
		}
		vms = append(vms, &record{Address: at.address})
	}
	taken, err := net.Listen("tcp", "127.64.8.9:7298")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	if port, err := freePort("127.64.8.9", healthPort, nil); err != nil || port == "127.64.8.9:7298" {
		t.Errorf("a port in use was given: %s, %v", port, err)
	}

	p.options.OneAddress, vms = true, nil
	ports := map[string]bool{}
	for range 40 {
		at, err := p.freeListenAddrs("127.64.7.0/24", vms)
		if err != nil || at.address != "127.0.0.1" || ports[at.health] || ports[at.api] || at.health == at.api {
			t.Fatalf("%+v, %v", at, err)
		}
		ports[at.health], ports[at.api] = true, true
		vms = append(vms, &record{Address: at.address, Node: node.Config{Health: at.health, API: at.api}})
	}

	full := make([]*record, 0, 250)
	for i := range 250 {
		full = append(full, &record{Address: fmt.Sprintf("127.64.7.%d", 2+i)})
	}
	p.options.OneAddress = false
	if _, err := p.freeListenAddrs("127.64.7.0/24", full); fault.Of(err) != cluster.CapacityExhausted {
		t.Errorf("a full range: %v", err)
	}
}

// Only a resource that is proven not to exist is gone; each other error has its fault.
func TestTrouble(t *testing.T) {
	for want, errs := range map[*fault.Kind][]error{
		cluster.CredentialsRefused:  {fs.ErrPermission, syscall.EPERM, syscall.EACCES},
		cluster.CapacityExhausted:   {syscall.ENOSPC, syscall.EDQUOT},
		cluster.ProviderUnreachable: {fs.ErrNotExist, syscall.EIO, syscall.ESTALE, errors.New("anything")},
	} {
		for _, err := range errs {
			if got := ioFault(fmt.Errorf("path: %w", err)); fault.Of(got) != want || isGone(got) {
				t.Errorf("%v: %v", err, got)
			}
		}
	}
	if ioFault(nil) != nil {
		t.Error("no trouble")
	}
}

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	for _, c := range []struct {
		text  string
		lines int
		want  string
	}{
		{"", 3, ""}, {"a\n", 3, "a\n"}, {"a", 1, "a"}, {"a\nb\nc\n", 2, "b\nc\n"}, {"a\nb\nc", 2, "b\nc"}, {"a\nb\n", 2, "a\nb\n"}, {"\n\n\n", 2, "\n\n"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := tail(path, c.lines); err != nil || got != c.want {
			t.Errorf("%d lines of %q: %q, %v", c.lines, c.text, got, err)
		}
	}
	long := strings.Repeat("0123456789abcdef0123456789abcde\n", 3*maxTailBytes/32)
	if err := os.WriteFile(path, []byte(long), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := tail(path, 1<<30); err != nil || len(got) > maxTailBytes || !strings.HasPrefix(got, "0123") {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.SliceOf(rapid.StringMatching(`[a-z]{0,5}`)).Draw(t, "lines")
		n := rapid.IntRange(1, 10).Draw(t, "n")
		all := ""
		for _, line := range lines {
			all += line + "\n"
		}
		if err := os.WriteFile(path, []byte(all), 0o600); err != nil {
			t.Fatal(err)
		}
		want := ""
		for _, line := range lines[max(0, len(lines)-n):] {
			want += line + "\n"
		}
		if got, err := tail(path, n); err != nil || got != want {
			t.Fatalf("%d lines of %q: %q, %v", n, all, got, err)
		}
	})
}

// A missing data directory proves nothing.
func TestDirectoryAway(t *testing.T) {
	dir := folder(t)
	p := open(t, Options{Dir: dir})
	r := createVM(t, p, want("a"))
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	_, err := p.Get(t.Context(), r.ref())
	if fault.Of(err) != cluster.ProviderUnreachable {
		t.Errorf("get: %v", err)
	}
	if _, err := p.Act(t.Context(), r.ref(), cluster.Destroy); fault.Of(err) != cluster.ProviderUnreachable {
		t.Errorf("destroy: %v", err)
	}
	if err := os.Rename(dir+".away", dir); err != nil {
		t.Fatal(err)
	}
	awaitPower(t, p, r, cluster.PoweredOn)
	if err := act(t, p, r, cluster.Destroy); err != nil {
		t.Error(err)
	}
	if _, err := p.List(context.Background(), cluster.Filter{}, ""); err != nil {
		t.Error(err)
	}
}
