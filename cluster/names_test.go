package cluster

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestCleanName(t *testing.T) {
	for in, want := range map[string]string{
		"blue": "blue", "Blue Team 1": "blue-team-1", "a--b__c": "a-b-c", "-x-": "x", "42": "c42", "": "", "!!": "", "über": "ber", "Zoë's": "zo-s",
		strings.Repeat("a", 70): strings.Repeat("a", 63),
	} {
		if got := CleanName(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestNodeName(t *testing.T) {
	c := &Cluster{UUID: "1F2E-3d4c-aaaa", Name: "Blue Team"}
	if got := NodeName(c, Worker, 12); got != "blue-team-1f2e3d-worker12" {
		t.Error(got)
	}
	if got := ResourceName(c, "network"); got != "blue-team-1f2e3d-network" {
		t.Error(got)
	}
	c.Name = strings.Repeat("long-", 50)
	if got := NodeName(c, Control, 1); len(got) > 63 || !strings.HasSuffix(got, "-1f2e3d-control1") || strings.Contains(got, "--") {
		t.Error(got)
	}
}

// Names are valid host name labels, differ between clusters and ordinals, and only
// names that Pawl chose are recognised.
func TestNamesAreLegalUniqueAndKnownAgain(t *testing.T) {
	legal := regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	rapid.Check(t, func(r *rapid.T) {
		c := &Cluster{UUID: rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}`).Draw(r, "id"), Name: rapid.String().Draw(r, "name")}
		role := rapid.SampledFrom([]Role{Control, Worker}).Draw(r, "role")
		n, m := rapid.IntRange(1, 99999).Draw(r, "n"), rapid.IntRange(1, 99999).Draw(r, "m")
		name := NodeName(c, role, n)
		if !legal.MatchString(name) {
			r.Fatalf("%q is no host name", name)
		}
		if n != m && name == NodeName(c, role, m) {
			r.Fatalf("%d and %d have the same name", n, m)
		}
		if of, ordinal, ok := RoleOf(c, name); !ok || of != role || ordinal != n || !namedByUs(c, name) {
			r.Fatalf("%q is read as %s %d, %t", name, of, ordinal, ok)
		}
		other := &Cluster{UUID: "ffffff0" + c.UUID, Name: c.Name}
		if shortID(c) != "ffffff" && namedByUs(other, name) {
			r.Fatal("another cluster takes the name for its own")
		}
	})
}

func TestForeignNamesAreNotOurs(t *testing.T) {
	c := &Cluster{UUID: "1f2e3d4c", Name: "blue"}
	for _, name := range []string{"", "blue", "blue-1f2e3d-", "blue-1f2e3e-worker1", "green-1f2e3d-worker1", "BLUE-1f2e3d-worker1", "my-blue-1f2e3d-worker1"} {
		if namedByUs(c, name) {
			t.Errorf("%q is taken for a name of Pawl", name)
		}
	}
	for _, name := range []string{"blue-1f2e3d-worker01", "blue-1f2e3d-worker0", "blue-1f2e3d-worker", "blue-1f2e3d-network"} {
		if role, n, ok := RoleOf(c, name); ok {
			t.Errorf("%q is read as %s %d", name, role, n)
		}
	}
}

func TestOrdinalsAreNeverReused(t *testing.T) {
	c := Cluster{UUID: "1f2e3d4c", Name: "blue"}
	b := &Record{Cluster: c}
	if got := NextOrdinal(b, Worker); got != 1 {
		t.Errorf("the first is %d", got)
	}
	b.Nodes = []Node{{Role: Worker, Ordinal: 2}, {Role: Worker, Ordinal: 4, Removed: noon}, {Role: Control, Ordinal: 9}}
	b.Journal = []JournalRow{
		{Kind: VM, Name: NodeName(&c, Worker, 7), Phase: Gone}, // removed long ago
		{Kind: VM, Name: NodeName(&c, Worker, 6), Phase: NeverCreated},
		{Kind: Firewall, Name: NodeName(&c, Worker, 99), Phase: Present},
		{Kind: VM, Name: "foreign-worker50", Phase: Present, Origin: OriginAdopted},
	}
	if got := NextOrdinal(b, Worker); got != 8 {
		t.Errorf("after 7 comes %d", got)
	}
	if got := NextOrdinal(b, Control); got != 10 {
		t.Errorf("after 9 comes %d", got)
	}
}

func TestBackoffDoublesToItsEnd(t *testing.T) {
	for n, want := range map[int]time.Duration{-1: 0, 0: 0, 1: 5 * time.Minute, 2: 10 * time.Minute, 6: 160 * time.Minute, 7: 320 * time.Minute, 8: 6 * time.Hour, 1000: 6 * time.Hour} {
		if got := GCBackoff.After(n, "x"); got < want || got > want+want/10 {
			t.Errorf("try %d: %s, want %s and up to a tenth", n, got, want)
		}
	}
	if got := recoverBackoff.After(7, "x"); got < time.Hour || got > 66*time.Minute {
		t.Errorf("recovery's longest: %s", got)
	}
}

func TestBackoffNeverShrinksAndItsJitterIsConstant(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := Backoff{time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(r, "first")), time.Duration(rapid.Int64Range(1, int64(1<<61)).Draw(r, "longest"))}
		id, n := rapid.String().Draw(r, "id"), rapid.IntRange(1, 200).Draw(r, "n")
		if b.After(n+1, id) < b.After(n, id) {
			r.Fatalf("it shrinks behind try %d", n)
		}
		again := Backoff{b.Initial, b.Max}
		if b.After(n, id) != again.After(n, strings.Clone(id)) || b.After(n, id) <= 0 || b.After(n, id) > b.Max+b.Max/10+1 {
			r.Fatalf("try %d: %s", n, b.After(n, id))
		}
	})
	if GCBackoff.After(1, "a") == GCBackoff.After(1, "b") {
		t.Error("two ids have the same jitter")
	}
}
