package kube

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/lease"
)

// A candidate that looks at a lease for the first time waits for the whole of it, unless the manager
// tells how long it has seen no renewal. What the manager tells of an older renewal counts for
// nothing, and nothing makes a lease end before its holder counts it as ended.
func TestALeaseCountsFromTheLastRenewalSeen(t *testing.T) {
	for name, c := range map[string]struct {
		renewed time.Duration // after the manager has looked: the writer renews once more
		told    bool
		late    time.Duration // the agent of the candidate begins so late
		want    time.Duration // from the last renewal until the candidate has the lease
	}{
		"not told":                          {0, false, 0, 15 * time.Second},
		"told":                              {0, true, 0, 10 * time.Second},
		"told, and began after the renewal": {0, true, 2 * time.Second, 12 * time.Second}, // its promises are forgotten
		"told of a renewal before the last": {time.Second, true, 0, 14 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				record := records(t)
				manager, writer := &Grants{Client: record, Cluster: blue}, &Grants{Client: record, Cluster: blue}
				candidate := &Grants{Client: record, Cluster: blue, born: time.Now().Add(c.late)}
				must := func(err error) {
					t.Helper()
					if err != nil {
						t.Fatal(err)
					}
				}
				renew := func() {
					t.Helper()
					_, err := writer.Renew(t.Context(), lease.Renewal{Writer: "a", Epoch: 1, TTL: 10 * time.Second})
					must(err)
				}
				must(manager.Grant(t.Context(), "a", 1))
				renew()
				renewed := time.Now()
				for _, g := range []*Grants{manager, writer} {
					_, err := g.Read(t.Context())
					must(err)
				}
				if c.renewed > 0 {
					time.Sleep(c.renewed)
					renew()
					renewed = time.Now()
				}
				time.Sleep(5*time.Second - c.renewed) // the manager counts its misses
				s, ok := manager.Sighting(time.Now())
				if !ok || s.Age != host.Duration(5*time.Second) {
					t.Fatalf("the manager saw %+v, %t", s, ok)
				}
				must(manager.Grant(t.Context(), "b", 2))
				if c.told {
					candidate.Believe(s, time.Now())
				}
				for {
					if _, err := candidate.Renew(t.Context(), lease.Renewal{Writer: "b", Epoch: 2, TTL: 10 * time.Second}); err == nil {
						break
					}
					time.Sleep(100 * time.Millisecond)
				}
				if waited := time.Since(renewed); waited != c.want {
					t.Errorf("the candidate has the lease %s after the last renewal, want %s", waited, c.want)
				}
			})
		})
	}
}
