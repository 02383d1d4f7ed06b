package cluster

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/machine"
)

func TestDecideOrphan(t *testing.T) {
	const hour = time.Hour
	for _, c := range []struct {
		name string
		do   func(s *fixture, r *Resource)
		want OrphanAction
	}{
		{"older than the grace, with proof", func(*fixture, *Resource) {}, OrphanClose},
		{"younger", func(_ *fixture, r *Resource) { r.Created = noon.Add(1 - hour) }, OrphanLeave},
		{"of unknown age", func(_ *fixture, r *Resource) { r.Created = time.Time{} }, OrphanLeave},
		{"a name that we never gave", func(_ *fixture, r *Resource) { r.Name = "mine" }, OrphanReport},
		{"another installation's", func(_ *fixture, r *Resource) { r.Tags[TagInstallation] = "other" }, OrphanLeave},
		{"of a destroyed cluster", func(s *fixture, _ *Resource) { s.c().State = Destroyed }, OrphanClose},
		{"a run works on the cluster", func(s *fixture, _ *Resource) { s.c().State = Scaling }, OrphanLeave},
		{"gc is 0", func(s *fixture, _ *Resource) { s.c().GC = false }, OrphanLeave},
		{"it is a node", func(s *fixture, r *Resource) { s.record.Nodes[1].VMID = r.ID }, OrphanLeave},
		{"a row is open for it", func(s *fixture, r *Resource) {
			s.record.Journal = append(s.record.Journal, JournalRow{Kind: VM, Phase: Closing, ProviderID: r.ID})
		}, OrphanLeave},
		{"an intent waits for it", func(s *fixture, r *Resource) {
			s.record.Journal = append(s.record.Journal, JournalRow{Kind: VM, Phase: Intent, Name: r.Name})
		}, OrphanLeave},
		{"its row was closed too early", func(s *fixture, r *Resource) {
			s.record.Journal = append(s.record.Journal, JournalRow{Kind: VM, Phase: Gone, ProviderID: r.ID})
		}, OrphanClose},
		{"an operator has forgotten it", func(s *fixture, r *Resource) {
			s.record.Journal = append(s.record.Journal, JournalRow{Kind: VM, Phase: Forgotten, ProviderID: r.ID})
		}, OrphanLeave},
		{"it may be adopted", func(s *fixture, _ *Resource) { s.c().Recovery = Recovery{Adopt} }, OrphanLeave},
		{"nobody adopts for a cluster that goes", func(s *fixture, _ *Resource) {
			s.c().Recovery, s.c().State = Recovery{Adopt}, Destroyed
		}, OrphanClose},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newFixture(Running)
			r := Resource{Kind: VM, ID: "x", Name: NodeName(s.c(), Worker, 8), Created: noon.Add(-hour),
				Tags: map[string]string{TagInstallation: "inst", TagCluster: s.c().UUID, TagKey: "k"}}
			c.do(s, &r)
			if got := DecideOrphan(r, &s.record, "inst", noon, hour); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// A restored database may lack clusters. Resources of clusters that it does not
// know stay.
func TestARestoredDatabaseKillsNothing(t *testing.T) {
	s := newFixture(Running)
	for _, r := range s.observed.Resources {
		if got := DecideOrphan(r, nil, "inst", noon.Add(1000*time.Hour), time.Hour); got != OrphanReport {
			t.Errorf("%s: %s", r.Name, got)
		}
	}
}

func TestDecideRow(t *testing.T) {
	for _, c := range []struct {
		name  string
		state machine.State
		row   JournalRow
		do    func(s *fixture)
		want  RowAction
	}{
		{"an open intent is settled", Running, JournalRow{Phase: Intent}, nil, RowResolve},
		{"an answer is settled", Alert, JournalRow{Phase: Accepted}, nil, RowResolve},
		{"closing goes on", Stopped, JournalRow{Phase: Closing}, nil, RowDelete},
		{"leaked goes on", Running, JournalRow{Phase: Leaked}, nil, RowDelete},
		{"not before its time", Running, JournalRow{Phase: Closing, NextAt: noon.Add(1)}, nil, RowLeave},
		{"at its time", Running, JournalRow{Phase: Closing, NextAt: noon}, nil, RowDelete},
		{"a run works there", Recovering, JournalRow{Phase: Closing}, nil, RowLeave},
		{"the delete run does that", Expunge, JournalRow{Phase: Closing}, nil, RowLeave},
		{"not started yet", Created, JournalRow{Phase: Intent}, nil, RowLeave},
		{"gc is 0", Running, JournalRow{Phase: Closing}, func(s *fixture) { s.c().GC = false }, RowLeave},
		{"given", Running, JournalRow{Phase: Closing, Origin: OriginGiven}, nil, RowLeave},
		{"gone", Running, JournalRow{Phase: Gone}, nil, RowLeave},
		{"open though destroyed", Destroyed, JournalRow{Phase: Present}, nil, RowDelete},
		{"a network stays", Running, JournalRow{Kind: Network, Phase: Present}, nil, RowLeave},
		{"a VM whose node was taken out", Running, JournalRow{Kind: VM, Name: "old", Key: "old", ProviderID: "old", Phase: Present}, nil, RowDelete},
		{"but not at once", Running, JournalRow{Kind: VM, Name: "old", Key: "old", Phase: Present, PresentAt: noon}, nil, RowLeave},
		{"a node's VM", Running, JournalRow{Kind: VM, Name: "x", Key: "x", ProviderID: "vm-worker1", Phase: Present}, nil, RowLeave},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newFixture(c.state)
			if c.do != nil {
				c.do(s)
			}
			if got := DecideRow(&c.row, &s.record, noon, time.Hour); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestFailedLeaksAfterFiveAttempts(t *testing.T) {
	j := row(Closing)
	last := noon
	for i := 1; i <= 12; i++ {
		leaked := RecordFailure(j, ResourceInUse.Errorf("still used"), noon, GCBackoff, 5)
		if leaked != (i == 5) || (j.Phase == Leaked) != (i >= 5) || j.Attempts != i {
			t.Fatalf("attempt %d: leaked %t, %s", i, leaked, j.Phase)
		}
		if j.NextAt.Before(last) || j.NextAt.Sub(noon) < 5*time.Minute {
			t.Fatalf("attempt %d: the next is at %s, before it was %s", i, j.NextAt, last)
		}
		last = j.NextAt
	}
	if j.LastCode != ResourceInUse.Code || j.LastError != "still used" {
		t.Errorf("%s %s", j.LastCode, j.LastError)
	}
	making := row(Intent)
	for range 9 {
		if RecordFailure(making, ProviderRefused.Errorf("no"), noon, GCBackoff, 5) {
			t.Fatal("what was never there is no leak")
		}
	}
}

func TestLazyCleanup(t *testing.T) {
	for name, c := range map[string]Cluster{
		"rollback":        {State: Expunging, OnFailure: Rollback},
		"another state":   {State: Expunge, OnFailure: Lazy},
		"a later delete":  {State: Expunging, OnFailure: Lazy, Started: true},
		"delete is asked": {State: Expunging, OnFailure: Lazy, Desired: WantDestroyed},
	} {
		if LazyCleanup(&c) {
			t.Errorf("%s waits for the collector", name)
		}
	}
	if !LazyCleanup(&Cluster{State: Expunging, OnFailure: Lazy, Desired: WantRunning}) {
		t.Error("lazy does not wait")
	}
}
