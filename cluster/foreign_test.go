package cluster

import (
	"slices"
	"testing"
)

// A foreign VM stays a finding until an observation with a complete list of the
// network does not contain it.
func TestForeignVMs(t *testing.T) {
	stranger := Resource{Kind: VM, ID: "z", Name: "stranger"}
	for _, c := range []struct {
		name   string
		before bool
		around bool
		seen   bool
		want   bool
	}{
		{"never seen", false, true, false, false},
		{"seen", false, true, true, true},
		{"seen again", true, true, true, true},
		{"gone", true, true, false, false},
		{"nobody looked", true, false, false, true},
		{"nobody has ever looked", false, false, false, false},
		{"seen by a look that does not see all", true, false, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newFixture(Running)
			if c.before {
				s.observed.ForeignComplete, s.observed.Foreign = true, []Resource{stranger}
				s.decide().Apply(s.c(), s.now)
			}
			if s.observed.ForeignComplete, s.observed.Foreign = c.around, nil; c.seen {
				s.observed.Foreign = []Resource{stranger}
			}
			j := s.decide()
			if got := slices.Equal(j.types(), []string{"foreign"}); got != c.want || len(j.Findings) > 1 || j.Alarm || !j.Healthy {
				t.Errorf("found %v, alarm %t, healthy %t", j.Findings, j.Alarm, j.Healthy)
			}
			if j.Changed != (c.before != c.want) {
				t.Errorf("changed: %t", j.Changed)
			}
		})
	}
}

// A VM in the network without the tags is foreign, unless the record contains it.
func TestMeet(t *testing.T) {
	s := newFixture(Running)
	known := *s.resource("vm-worker1")
	s.gone("vm-worker1", false)
	known.Tags = nil
	for range 2 {
		s.observed.AddFromNetwork(&s.record, known)
	}
	s.observed.AddFromNetwork(&s.record, Resource{Kind: VM, ID: "z", Name: "stranger"})
	if len(s.observed.Foreign) != 1 || len(s.observed.Resources) != 6 {
		t.Errorf("%d foreign, %d of the cluster", len(s.observed.Foreign), len(s.observed.Resources))
	}
	if j := s.decide(); !slices.Equal(j.types(), []string{"foreign"}) {
		t.Errorf("found %v", j.Findings)
	}
}
