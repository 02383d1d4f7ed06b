package serve

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// fakeCloud is a CloudStack API with a network in each of two zones. It notes the
// parameters of its calls, and how many there were at a time.
type fakeCloud struct {
	url     string
	seen    sync.Map // name=value
	now     atomic.Int32
	most    atomic.Int32
	holding time.Duration
}

func newFakeCloud(t *testing.T) *fakeCloud {
	f := &fakeCloud{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := f.now.Add(1)
		defer f.now.Add(-1)
		for most := f.most.Load(); n > most && !f.most.CompareAndSwap(most, n); most = f.most.Load() {
		}
		time.Sleep(f.holding)
		for name, values := range r.URL.Query() {
			f.seen.Store(name+"="+values[0], true)
		}
		body := "{}"
		if r.URL.Query().Get("command") == "listNetworks" {
			body = `{"count":2,"network":[{"id":"n1","name":"n1","zoneid":"z1"},{"id":"n2","name":"n2","zoneid":"z2"}]}`
		}
		fmt.Fprintf(w, `{%q:%s}`, strings.ToLower(r.URL.Query().Get("command"))+"response", body)
	}))
	t.Cleanup(s.Close)
	f.url = s.URL
	return f
}

// provider is what a file with more keys makes.
func (f *fakeCloud) provider(t *testing.T, more string) cluster.Provider {
	t.Helper()
	t.Chdir(t.TempDir())
	text := fmt.Sprintf("providers:\n- name: c\n  type: cloudstack\n  url: %s\n  apiKey: KEY\n  secretFile: secret\n%s", f.url, more)
	for name, data := range map[string]string{"secret": "SECRET\n", "f.yaml": text} {
		if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := ReadClusters("f.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := (&parts{}).provider(c.Providers[0], "test")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Zones, page size and accounts of the file are those of the calls: a tenant
// with an account of its own is served from that one, all others from the one account.
func TestFinding22FileSaysZonesPageSizeAndAccounts(t *testing.T) {
	const keys = "  zones: [z1]\n  pageSize: 50\n  account: {name: everybody, domainID: d0}\n  accounts:\n    tenant-1: {name: acme, domainID: d1}\n"
	for _, test := range []struct {
		keys, tenant, networks string
		sent, not              []string
	}{
		{"", "tenant-1", "n1 n2", []string{"pagesize=500"}, []string{"account=everybody", "account=acme"}},
		{keys, "tenant-1", "n1", []string{"pagesize=50", "account=acme", "domainid=d1"}, []string{"pagesize=500", "account=everybody", "domainid=d0"}},
		{keys, "tenant-2", "n1", []string{"pagesize=50", "account=everybody", "domainid=d0"}, []string{"account=acme", "domainid=d1"}},
	} {
		f := newFakeCloud(t)
		entries, err := f.provider(t, test.keys).Catalog(t.Context(), cluster.Owner{AccountID: test.tenant, DomainID: "here"}, cluster.Network)
		var ids []string
		for _, e := range entries {
			ids = append(ids, e.ID)
		}
		if got := strings.Join(ids, " "); err != nil || got != test.networks {
			t.Errorf("%s has networks %q, %v", test.tenant, got, err)
		}
		for _, param := range test.sent {
			if _, ok := f.seen.Load(param); !ok {
				t.Errorf("%s: %s was not sent", test.tenant, param)
			}
		}
		for _, param := range test.not {
			if _, ok := f.seen.Load(param); ok {
				t.Errorf("%s: %s was sent", test.tenant, param)
			}
		}
	}
}

// Rate and parallelism of the file are kept: the third call of two a second
// begins a second after the first, and of one at a time there are never two.
func TestFinding22FileSaysRateAndParallel(t *testing.T) {
	f := newFakeCloud(t)
	p := f.provider(t, "  rate: 2\n")
	began := time.Now()
	for range 3 {
		if _, err := p.List(t.Context(), cluster.Filter{Zone: "z1"}, ""); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took < 950*time.Millisecond {
		t.Errorf("3 calls of 2 a second took %s", took)
	}
	for parallel, want := range map[int]int32{1: 1, 3: 3} {
		f := newFakeCloud(t)
		f.holding = 20 * time.Millisecond
		p := f.provider(t, fmt.Sprintf("  rate: 100000\n  parallel: %d\n", parallel))
		var calls sync.WaitGroup
		for range 8 {
			calls.Go(func() {
				if _, err := p.List(t.Context(), cluster.Filter{Zone: "z1"}, ""); err != nil {
					t.Error(err)
				}
			})
		}
		calls.Wait()
		if most := f.most.Load(); most > want {
			t.Errorf("parallel: %d, and %d calls at a time", parallel, most)
		}
	}
}
