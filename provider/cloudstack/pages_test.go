package cloudstack_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/provider/cloudstack"
	"github.com/pawl-dev/pawl/provider/cloudstack/cloudstacktest"
	"github.com/pawl-dev/pawl/provider/sim"
)

// If the server allows only smaller pages, the client uses the size from the server's
// text, or half each time; it exceeds the limit only once.
func TestFinding22PageSizeIsAdapted(t *testing.T) {
	for _, text := range []string{"Page size can't exceed max allowed page size value: 3", "the pagesize is too large"} {
		r := newFixture(t, sim.Options{}, cloudstacktest.Options{})
		p := r.client()
		for i := range 8 {
			if _, err := r.cloud.Add(cluster.DesiredResource{Kind: cluster.VM, Name: fmt.Sprint("vm-", i), Tags: map[string]string{cluster.TagInstallation: installation},
				Spec: cluster.Spec{Zone: "zone-1", Offering: "small", Template: "node-image"}}); err != nil {
				t.Fatal(err)
			}
		}
		refused := 0
		r.intercept(func(command string, _ int) answer {
			asked := r.requests()
			size, _ := strconv.Atoi(asked[len(asked)-1].params.Get("pagesize"))
			if size <= 3 {
				return answer{}
			}
			refused++
			return answer{status: 431, body: fmt.Sprintf(`{%q:{"errorcode":431,"cserrorcode":4350,"errortext":%q}}`, strings.ToLower(command)+"response", text),
				header: http.Header{"Content-Type": {"application/json"}}}
		})
		for range 2 {
			found := 0
			at := cluster.Cursor("")
			for range 20 {
				page, err := p.List(t.Context(), cluster.Filter{Kind: cluster.VM, Zone: "zone-1", Foreign: true}, at)
				if err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				found += len(page.Items)
				if at = page.Next; at == "" {
					break
				}
			}
			if found != 8 || at != "" {
				t.Errorf("%s: %d VMs of 8, then %q", text, found, at)
			}
			if _, err := p.Catalog(t.Context(), owner, cluster.Offering); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
		if refused == 0 || refused > 8 {
			t.Errorf("%s: %d requests were refused", text, refused)
		}
	}
}

// A list with very small pages ends: no page of size 2 or 3 contains both the sixth and
// the seventh resource.
func TestFinding22SmallPagesHaveAnEnd(t *testing.T) {
	r := newFixture(t, sim.Options{}, cloudstacktest.Options{})
	const vms = 26
	for i := range vms {
		if _, err := r.cloud.Add(cluster.DesiredResource{Kind: cluster.VM, Name: fmt.Sprint("vm-", i), Tags: map[string]string{cluster.TagInstallation: installation},
			Spec: cluster.Spec{Zone: "zone-1", Offering: "small", Template: "node-image"}}); err != nil {
			t.Fatal(err)
		}
	}
	for most := 2; most <= 5; most++ {
		for size := 0; size <= most; size++ {
			p := r.client(func(o *cloudstack.Options) { o.PageSize = most })
			seen := map[string]bool{}
			at, twice := cluster.Cursor(""), 0
			for range 2 * vms {
				page, err := p.List(t.Context(), cluster.Filter{Kind: cluster.VM, Zone: "zone-1", Foreign: true, Size: size}, at)
				if err != nil {
					t.Fatalf("at most %d, asked for %d: %v", most, size, err)
				}
				for _, it := range page.Items {
					if seen[it.ID] {
						twice++
					}
					seen[it.ID] = true
				}
				if at = page.Next; at == "" {
					break
				}
			}
			if len(seen) != vms || twice > 0 || at != "" {
				t.Errorf("at most %d, asked for %d: %d VMs of %d, %d twice, then %q", most, size, len(seen), vms, twice, at)
			}
		}
	}
}

// If two pages do not overlap, a list that changes between them is an error.
func TestFinding22ChangeBetweenSmallPagesIsNotMissed(t *testing.T) {
	r := newFixture(t, sim.Options{}, cloudstacktest.Options{})
	p := r.client(func(o *cloudstack.Options) { o.PageSize = 2 })
	for i := range 6 {
		if _, err := r.cloud.Add(cluster.DesiredResource{Kind: cluster.VM, Name: fmt.Sprint("vm-", i), Tags: map[string]string{cluster.TagInstallation: installation},
			Spec: cluster.Spec{Zone: "zone-1", Offering: "small", Template: "node-image"}}); err != nil {
			t.Fatal(err)
		}
	}
	f := cluster.Filter{Kind: cluster.VM, Zone: "zone-1", Foreign: true}
	first, err := p.List(t.Context(), f, "")
	if err != nil {
		t.Fatal(err)
	}
	r.intercept(func(_ string, n int) answer {
		if n == 2 { // between the reads of two pages
			if err := r.cloud.Delete(cluster.VM, first.Items[0].ID); err != nil {
				t.Error(err)
			}
		}
		return answer{}
	})
	if page, err := p.List(t.Context(), f, first.Next); fault.Of(err) != cluster.ProviderUnreachable {
		t.Errorf("%d VMs, %v", len(page.Items), err)
	}
	r.intercept(nil)
	left := 0
	for at, n := first.Next, 0; n < 10; n++ {
		page, err := p.List(t.Context(), f, at)
		if err != nil {
			t.Fatal(err)
		}
		left += len(page.Items)
		if at = page.Next; at == "" {
			break
		}
	}
	if left != 4 {
		t.Errorf("%d VMs follow, want 4", left)
	}
}
