package bookstest

import (
	"context"

	"github.com/pawl-dev/pawl/cluster"
)

// notices: one of each provider and duty, the newest, whole; a silent one is none.
func notices(e exam) {
	put := func(n cluster.Notice) {
		e.Helper()
		if err := e.books.PutNotice(e.Context(), n); err != nil {
			e.Fatalf("notice of %s by %s: %v", n.Provider, n.Duty, err)
		}
	}
	are := func(what string, want ...cluster.Notice) {
		e.Helper()
		got, err := e.books.Notices(e.Context())
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
	trouble := cluster.Notice{Provider: "b/ü", Duty: "sync", Since: now, Code: "PROVIDER_UNREACHABLE", Text: "no answer"}
	put(trouble)
	put(full)
	strays := cluster.Notice{Provider: "b/ü", Duty: "collect", Strays: []cluster.Stray{{Kind: cluster.VM, ID: "1", Resource: "x"}}}
	put(strays)
	other := cluster.Notice{Provider: "b", Duty: "sync", More: 3}
	put(other)
	are("all, in order", other, strays, trouble, full)

	trouble.Text, trouble.Strays = "still no answer", full.Strays
	put(trouble)
	are("the newest", other, strays, trouble, full)
	trouble.Strays[0].ID = "changed" // what goes in is copied
	put(cluster.Notice{Provider: "b/ü", Duty: "collect"})
	put(cluster.Notice{Provider: "b/ü", Duty: "collect"})
	put(cluster.Notice{Provider: "nobody", Duty: "collect"})
	got, err := e.books.Notices(e.Context())
	if err != nil || len(got) != 3 || got[1].Strays[0].ID == "changed" {
		e.Errorf("%+v, %v", got, err)
	}
	put(cluster.Notice{Provider: "b", Duty: "sync"})
	put(cluster.Notice{Provider: "b/ü", Duty: "sync"})
	put(cluster.Notice{Provider: full.Provider, Duty: full.Duty})
	are("none again")

	ctx, cancel := context.WithCancel(e.Context())
	cancel()
	if err := e.books.PutNotice(ctx, trouble); err == nil {
		e.Error("a cancelled context has written a notice")
	}
	are("nothing written")
}
