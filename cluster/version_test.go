package cluster

import (
	"errors"
	"testing"
)

func TestValidateUpgrade(t *testing.T) {
	for _, c := range []struct {
		from, to string
		ok       bool
	}{
		{"1.30.1", "1.31.0", true}, {"1.30.1", "1.30.5", true}, {"1.30.1", "1.30.1", true}, {"v1.30.1", "1.31.0-rc.1", true}, {"", "1.2.3", true},
		{"1.30.1", "1.32.0", false}, {"1.30.1", "1.30.0", false}, {"1.30.1", "1.29.9", false}, {"1.30.1", "2.0.0", false}, {"2.0.0", "1.99.0", false},
		{"1.9.0", "1.10.0", true}, {"1.30", "1.31.0", false}, {"1.30.1", "latest", false}, {"1.30.1", "1.-1.0", false},
	} {
		if err := ValidateUpgrade(c.from, c.to); (err == nil) != c.ok || err != nil && !errors.Is(err, ClusterInvalid) {
			t.Errorf("%s to %s: %v", c.from, c.to, err)
		}
	}
}

func TestSameVersion(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"1.1.0", "1.1.0"}: true, {"v1.1.0", "1.1.0"}: true, {"1.1.0+k3s1", "1.1.0"}: true,
		{"1.1.0", "1.1.1"}: false, {"", ""}: false, {"new", "new"}: false, {"1.1", "1.1.0"}: false,
	} {
		if got := SameVersion(pair[0], pair[1]); got != want {
			t.Errorf("%q and %q: %t", pair[0], pair[1], got)
		}
	}
}

// A release candidate comes before its release, and is another version.
func TestFinding22CandidateIsNotItsRelease(t *testing.T) {
	for _, c := range []struct {
		from, to string
		ok       bool
	}{
		{"1.30.0-rc1", "1.30.0", true}, {"1.30.0", "1.30.0-rc1", false}, {"1.30.0-rc1", "1.30.0-rc2", true}, {"1.30.0-rc.10", "1.30.0-rc.9", false},
		{"v1.29.9", "1.30.0-rc1", true}, {"1.28.0", "1.30.0-rc1", false}, {"1.30.0+a", "1.30.0+b", true}, {"1.30.0", "1.30", false}, {"1.30.0", "1.30.x", false},
	} {
		if err := ValidateUpgrade(c.from, c.to); (err == nil) != c.ok {
			t.Errorf("from %s to %s: %v", c.from, c.to, err)
		}
	}
	for _, c := range []struct {
		a, b string
		same bool
	}{{"1.30.0-rc1", "1.30.0", false}, {"v1.30.0", "1.30.0", true}, {"1.30.0+a", "1.30.0", true}, {"1.30", "1.30.0", false}, {"", "", false}} {
		if SameVersion(c.a, c.b) != c.same {
			t.Errorf("%q and %q are the same: %t", c.a, c.b, !c.same)
		}
	}
}
