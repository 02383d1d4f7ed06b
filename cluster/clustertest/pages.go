package clustertest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/machine"
)

func listOrder(e suite) {
	for i, name := range []string{"b", "d", "a", "c"} { // b and a were created at the same time: their ids decide
		c := newCluster(name)
		c.Created = now.Add([]time.Duration{0, 2 * time.Second, 0, time.Nanosecond}[i])
		e.commit(&cluster.Change{Cluster: c})
	}
	e.names("oldest first", cluster.ClusterQuery{}, 4, "b", "a", "c", "d")
	e.names("newest first", cluster.ClusterQuery{NewestFirst: true}, 4, "d", "c", "a", "b")
}

func listPages(e suite) {
	e.createClusters("a", "b", "c", "d", "e")
	type q = cluster.ClusterQuery
	e.names("first", q{Limit: 2}, 5, "a", "b")
	e.names("second", q{Limit: 2, Offset: 2}, 5, "c", "d")
	e.names("last", q{Limit: 2, Offset: 4}, 5, "e")
	e.names("past the end", q{Limit: 2, Offset: 6}, 5)
	e.names("all", q{Limit: -1}, 5, "a", "b", "c", "d", "e")
	e.names("filtered", q{Limit: 1, Offset: 1, Keyword: "uuid"}, 0)
	e.names("backward", q{Limit: 2, Offset: 1, NewestFirst: true}, 5, "d", "c")

	var change []string
	for i := range 510 {
		change = append(change, fmt.Sprintf("x%03d", i))
	}
	e.createClusters(change...)
	if all, n := e.list(q{Scope: everyone}); len(all) != cluster.PageLimit || n != 515 {
		e.Errorf("without a limit: %d of %d, want %d of 515", len(all), n, cluster.PageLimit)
	}
	if all, n := e.list(q{Scope: everyone, Limit: -1, Keyword: "X"}); len(all) != 510 || n != 510 {
		e.Errorf("unlimited: %d of %d, want 510 of 510", len(all), n)
	}
}

func listAfter(e suite) {
	all := e.createClusters("a", "b", "c", "d")
	type q = cluster.ClusterQuery
	e.names("behind b", q{AfterID: all["b"].ID}, 4, "c", "d")
	e.names("behind b, one", q{AfterID: all["b"].ID, Limit: 1}, 4, "c")
	e.names("behind the last", q{AfterID: all["d"].ID}, 4)
	e.names("backward behind c", q{AfterID: all["c"].ID, NewestFirst: true}, 4, "b", "a")
	all["b"].State = cluster.Destroyed // its position remains valid
	e.commit(&cluster.Change{Cluster: all["b"]})
	e.names("behind a destroyed one", q{AfterID: all["b"].ID}, 3, "c", "d")
	all["b"].Removed = now
	e.commit(&cluster.Change{Cluster: all["b"]})
	if _, err := e.store.Prune(e.Context(), now.AddDate(1, 0, 0), cluster.Retention{}); err != nil {
		e.Fatal(err)
	}
	e.names("behind one that is forgotten", q{AfterID: all["b"].ID}, 3, "c", "d")
	e.names("backward behind one that is forgotten", q{AfterID: all["b"].ID, NewestFirst: true}, 3, "a")
}

// pagesByNumber reads a list by offsets, in both orders, while clusters are
// created, changed and destroyed: each page is the part of the whole list at that
// moment.
func pagesByNumber(e suite) {
	r := rand.New(rand.NewPCG(7, 11))
	var living []*cluster.Cluster
	another := func() {
		c := newCluster(fmt.Sprint("p", len(living), "-", r.Int64()))
		c.Created = now.Add(time.Duration(r.IntN(40)) * time.Nanosecond) // some at the same time, some earlier than others
		e.commit(&cluster.Change{Cluster: c})
		living = append(living, c)
	}
	for range 30 {
		another()
	}
	for range 60 {
		switch one := living[r.IntN(len(living))]; r.IntN(8) {
		case 0:
			another()
		case 1:
			if one.State != cluster.Destroyed {
				one.State, one.Removed = cluster.Destroyed, now
				e.commit(&cluster.Change{Cluster: one})
			}
		case 2:
			if one.State != cluster.Destroyed {
				one.State = []machine.State{cluster.Running, cluster.Alert}[r.IntN(2)]
				e.commit(&cluster.Change{Cluster: one})
			}
		}
		q := cluster.ClusterQuery{Scope: everyone, NewestFirst: r.IntN(4) == 0, Limit: -1}
		if r.IntN(3) == 0 {
			q.State = cluster.Running
		}
		whole, total := e.list(q)
		if total != len(whole) {
			e.Errorf("%d clusters of %d", len(whole), total)
		}
		for q.Limit, q.Offset = 1+r.IntN(7), r.IntN(3); ; q.Offset += q.Limit {
			page, total := e.list(q)
			var got, want []string
			for _, c := range page {
				got = append(got, c.UUID)
			}
			for _, c := range whole[min(q.Offset, len(whole)):min(q.Offset+q.Limit, len(whole))] {
				want = append(want, c.UUID)
			}
			e.equal(fmt.Sprintf("%+v", q), want, got)
			if total != len(whole) {
				e.Errorf("%+v: total %d, want %d", q, total, len(whole))
			}
			if len(page) < q.Limit {
				break
			}
		}
	}
}

// pagesUnderChange reads a list while clusters are created, changed, destroyed and
// pruned: each cluster that exists throughout appears once, in order.
func pagesUnderChange(e suite) {
	for _, newest := range []bool{false, true} {
		for seed := range uint64(4) {
			r := rand.New(rand.NewPCG(seed, 42))
			created := 0
			another := func() *cluster.Cluster {
				c := newCluster(fmt.Sprintf("%v-%d-%d", newest, seed, created))
				c.Owner.AccountID = fmt.Sprint(newest, seed)
				c.Created = now.Add(time.Duration(created/5) * time.Nanosecond) // some at the same time
				created++
				e.commit(&cluster.Change{Cluster: c})
				return c
			}
			var living []*cluster.Cluster
			for range 40 {
				living = append(living, another())
			}
			throughout := slices.Clone(living)
			q := cluster.ClusterQuery{Scope: cluster.Scope{AccountID: fmt.Sprint(newest, seed)}, NewestFirst: newest, Limit: 3}
			var seen []string
			for {
				page, _ := e.list(q)
				for _, c := range page {
					seen = append(seen, c.UUID)
				}
				if len(page) < q.Limit {
					break
				}
				q.AfterID = page[len(page)-1].ID
				gone := living[r.IntN(len(living))]
				if r.IntN(2) == 0 { // the present position in the list
					gone = living[slices.IndexFunc(living, func(c *cluster.Cluster) bool { return c.ID == q.AfterID })]
				}
				if gone.State != cluster.Destroyed {
					gone.State, gone.Removed = cluster.Destroyed, now
					e.commit(&cluster.Change{Cluster: gone})
					throughout = slices.DeleteFunc(throughout, func(c *cluster.Cluster) bool { return c == gone })
				}
				if r.IntN(3) == 0 {
					if _, err := e.store.Prune(e.Context(), now.AddDate(1, 0, 0), cluster.Retention{}); err != nil {
						e.Fatal(err)
					}
				}
				if created < 60 {
					living = append(living, another())
				}
			}
			var want []string
			for _, c := range throughout {
				want = append(want, c.UUID)
			}
			if newest {
				slices.Reverse(want)
			}
			var kept []string
			for _, uuid := range seen {
				if slices.Contains(want, uuid) {
					kept = append(kept, uuid)
				}
			}
			e.equal(fmt.Sprintf("seed %d, newest first %v", seed, newest), want, kept)
			if slices.Sort(seen); len(slices.Compact(slices.Clone(seen))) != len(seen) {
				e.Errorf("seed %d, newest first %v: listed twice: %v", seed, newest, seen)
			}
		}
	}
}
