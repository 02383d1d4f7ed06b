package cloudstack_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/provider/sim"
	"github.com/pawl-dev/pawl/provider/sim/wire"
)

// A server whose pages are smaller than ours is asked for smaller ones: what its
// text says, or half as many each time; it is asked too much once only.
func TestFinding22PageSizeIsAdapted(t *testing.T) {
	for _, text := range []string{"Page size can not exceed max allowed value: 3", "the pagesize is too large"} {
		r := newRig(t, sim.Options{}, wire.Options{})
		p := r.client()
		for i := range 8 {
			if _, err := r.cloud.Add(cluster.Want{Kind: cluster.VM, Name: fmt.Sprint("vm-", i), Tags: map[string]string{cluster.TagInstallation: installation},
				Spec: cluster.Spec{Zone: "zone-1", Offering: "small", Template: "node-image"}}); err != nil {
				t.Fatal(err)
			}
		}
		refused := 0
		r.on(func(command string, _ int) answer {
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
			for at := cluster.Cursor(""); ; {
				page, err := p.List(t.Context(), cluster.Filter{Kind: cluster.VM, Zone: "zone-1", Foreign: true}, at)
				if err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				found += len(page.Items)
				if at = page.Next; at == "" {
					break
				}
			}
			if found != 8 {
				t.Errorf("%s: %d VMs of 8", text, found)
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
