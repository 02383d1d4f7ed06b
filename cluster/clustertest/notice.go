package clustertest

import (
	"context"

	"github.com/pawl-dev/pawl/cluster"
)

// notices: the store keeps the newest notice of each provider and task; an empty
// notices removes it.
func notices(e suite) {
	put := func(n cluster.Notice) {
		e.Helper()
		if err := e.store.PutNotice(e.Context(), n); err != nil {
			e.Fatalf("notice of %s by %s: %v", n.Provider, n.Task, err)
		}
	}
	are := func(what string, want ...cluster.Notice) {
		e.Helper()
		got, err := e.store.Notices(e.Context())
		if err != nil {
			e.Fatal(err)
		}
		if len(got) == 0 {
			got = nil
		}
		e.equal(what, want, got)
	}
	are("none")
	full := *filled[cluster.Notice]()
	trouble := cluster.Notice{Provider: "b/ü", Task: "sync", Since: now, Code: "PROVIDER_UNREACHABLE", Text: "no answer"}
	put(trouble)
	put(full)
	orphans := cluster.Notice{Provider: "b/ü", Task: "collect", Orphans: []cluster.Orphan{{Kind: cluster.VM, ID: "1", Resource: "x"}}}
	put(orphans)
	other := cluster.Notice{Provider: "b", Task: "sync", More: 3}
	put(other)
	are("all, in order", other, orphans, trouble, full)

	trouble.Text, trouble.Orphans = "still no answer", full.Orphans
	put(trouble)
	are("the newest", other, orphans, trouble, full)
	trouble.Orphans[0].ID = "changed" // the store copies its input
	put(cluster.Notice{Provider: "b/ü", Task: "collect"})
	put(cluster.Notice{Provider: "b/ü", Task: "collect"})
	put(cluster.Notice{Provider: "nobody", Task: "collect"})
	got, err := e.store.Notices(e.Context())
	if err != nil || len(got) != 3 || got[1].Orphans[0].ID == "changed" {
		e.Errorf("%+v, %v", got, err)
	}
	put(cluster.Notice{Provider: "b", Task: "sync"})
	put(cluster.Notice{Provider: "b/ü", Task: "sync"})
	put(cluster.Notice{Provider: full.Provider, Task: full.Task})
	are("none again")

	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	if err := e.store.PutNotice(ctx, trouble); err == nil {
		e.Error("a cancelled context has written a notice")
	}
	are("nothing written")
}
