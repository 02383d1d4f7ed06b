package fdb_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
)

// version reads a version that a test writes.
func version(t testing.TB, text string) fdb.Version {
	t.Helper()
	v, err := fdb.ParseVersion(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestParseVersion(t *testing.T) {
	for _, test := range []struct {
		text string
		want fdb.Version
	}{
		{"7.3.69", fdb.Version{Major: 7, Minor: 3, Patch: 69}},
		{"7.4.0-rc1", fdb.Version{Major: 7, Minor: 4, Candidate: 1}},
		{"7.3.0-PRERELEASE", fdb.Version{Major: 7, Minor: 3, Label: "PRERELEASE"}},
		{"7.4.0-rc2-PRERELEASE", fdb.Version{Major: 7, Minor: 4, Candidate: 2, Label: "PRERELEASE"}},
		{"FoundationDB CLI 7.3 (v7.3.69)", fdb.Version{Major: 7, Minor: 3, Patch: 69}},
		{"foundationdb/foundationdb:7.1.57-1", fdb.Version{Major: 7, Minor: 1, Patch: 57}},
		{"6.3.24 then 7.1.0", fdb.Version{Major: 6, Minor: 3, Patch: 24}},
		{"0.0.2147483647", fdb.Version{Patch: 1<<31 - 1}},
	} {
		if got := version(t, test.text); got != test.want {
			t.Errorf("%q is %+v, not %+v", test.text, got, test.want)
		}
	}
	for _, text := range []string{"", "7", "7.3", "7.3.", "7..3", "a.b.c", "7.3.2147483648", "99999999999999999999.1.1"} {
		if v, err := fdb.ParseVersion(text); fault.Of(err) != fdb.VersionInvalid {
			t.Errorf("%q is read as %v, with %v", text, v, err)
		}
	}
}

func TestVersionOrder(t *testing.T) {
	ascending := []string{"6.3.25", "7.1.0-rc1", "7.1.0-rc2", "7.1.0", "7.1.1", "7.1.10", "7.2.0", "7.3.0-rc9", "7.3.0", "8.0.0"}
	for i, left := range ascending {
		for j, right := range ascending {
			want := min(1, max(-1, i-j))
			if got := version(t, left).Compare(version(t, right)); got != want {
				t.Errorf("%s compared with %s is %d, not %d", left, right, got, want)
			}
		}
	}
	if version(t, "7.3.0-PRERELEASE").Compare(version(t, "7.3.0")) != 0 {
		t.Error("a label makes a version older or newer")
	}
	for text, want := range map[string]bool{"7.0.99": false, "7.1.0-rc1": false, "7.1.0": true, "7.1.1-rc1": true, "7.4.6": true, "6.9.9": false} {
		if got := version(t, text).Supported(); got != want {
			t.Errorf("%s is supported: %t", text, got)
		}
	}
	if short := version(t, "7.10.3-rc1").Short(); short != "7.10" {
		t.Errorf("the line is %s", short)
	}
}

// Both sides of each threshold of section 3.
func TestVersionHas(t *testing.T) {
	for _, test := range []struct {
		feature     fdb.Feature
		without     []string
		with        []string
		description string
	}{
		{fdb.FeatureSidecarPresent, []string{"7.0.99", "7.1.3", "7.1.4-rc1"}, []string{"7.1.4", "7.2.0", "7.3.0", "8.0.0"}, "sidecar"},
		{fdb.FeatureRecoveryState, []string{"7.1.21", "7.1.22-rc1"}, []string{"7.1.22", "7.2.0", "7.4.0-rc1"}, "recovery state"},
		{fdb.FeatureLocalityExclusion, []string{"7.1.41", "7.2.0", "7.2.99", "7.3.0", "7.3.25"}, []string{"7.1.42", "7.1.67", "7.3.26", "7.4.0-rc1", "7.4.0"}, "locality"},
		{fdb.FeatureDeadTesters, []string{"7.1.54", "7.3.34"}, []string{"7.1.55", "7.3.35", "7.4.0"}, "testers"},
		{fdb.FeatureBackupEncryption, []string{"7.1.99", "7.3.72", "7.4.5"}, []string{"7.3.73", "7.3.99", "7.4.6", "7.5.0"}, "encryption"},
		{fdb.FeatureMutationLogType, []string{"7.3.99", "7.4.6", "7.4.7-rc1"}, []string{"7.4.7", "7.5.0", "8.0.0"}, "log type"},
		{"Unknown", []string{"7.1.0", "9.9.9"}, nil, "a feature that nobody knows"},
	} {
		for _, text := range test.without {
			if version(t, text).Has(test.feature) {
				t.Errorf("%s has %s", text, test.description)
			}
		}
		for _, text := range test.with {
			if !version(t, text).Has(test.feature) {
				t.Errorf("%s lacks %s", text, test.description)
			}
		}
	}
}

func TestChangeOf(t *testing.T) {
	for _, test := range []struct {
		running, desired string
		want             fdb.VersionChange
	}{
		{"7.3.69", "7.3.69", fdb.VersionChange{Allowed: true, Compatible: true, AtLeast: true}},
		{"7.3.69", "7.3.79", fdb.VersionChange{Allowed: true, Upgrade: true, Compatible: true, AtLeast: true}},
		{"7.3.79", "7.3.69", fdb.VersionChange{Allowed: true, Compatible: true}},
		{"7.3.79", "7.4.6", fdb.VersionChange{Allowed: true, Upgrade: true, Incompatible: true, AtLeast: true}},
		{"7.4.6", "7.3.79", fdb.VersionChange{Incompatible: true}},
		{"7.4.0-rc1", "7.4.0", fdb.VersionChange{Allowed: true, Upgrade: true, Incompatible: true, AtLeast: true}},
		{"7.4.0", "7.4.0-rc1", fdb.VersionChange{Incompatible: true}},
		{"7.4.0-rc1", "7.4.0-rc1", fdb.VersionChange{Allowed: true, Compatible: true, AtLeast: true}},
		{"7.3.0-PRERELEASE", "7.3.0", fdb.VersionChange{Allowed: true, Compatible: true, AtLeast: true}},
	} {
		if got := fdb.ChangeOf(version(t, test.running), version(t, test.desired)); got != test.want {
			t.Errorf("%s to %s is %+v, not %+v", test.running, test.desired, got, test.want)
		}
	}
}

func TestRunningVersion(t *testing.T) {
	for _, test := range []struct {
		counts map[string]int
		want   string
	}{
		{nil, "keep"},
		{map[string]int{"7.3.69": 0, "": 9, "unknown": 9}, "keep"},
		{map[string]int{"7.3.69": 3, "7.4.6": 2}, "7.3.69"},
		{map[string]int{"7.3.69": 2, "7.4.6": 3}, "7.4.6"},
		{map[string]int{"7.3.69": 3, "7.10.0": 3, "7.4.6": 3}, "7.10.0"},
		{map[string]int{"7.4.0-rc1": 3, "7.4.0": 3}, "7.4.0"},
		{map[string]int{"7.3.0-PRERELEASE": 3, "7.3.0": 3}, "7.3.0"},
	} {
		if got := fdb.RunningVersion(test.counts, "keep"); got != test.want {
			t.Errorf("of %v runs %s, not %s", test.counts, got, test.want)
		}
	}
}

// drawVersion draws a version.
func drawVersion(t *rapid.T, label string) fdb.Version {
	return fdb.Version{
		Major:     rapid.IntRange(6, 8).Draw(t, label+" major"),
		Minor:     rapid.IntRange(0, 4).Draw(t, label+" minor"),
		Patch:     rapid.IntRange(0, 99).Draw(t, label+" patch"),
		Candidate: rapid.IntRange(0, 2).Draw(t, label+" candidate"),
		Label:     rapid.SampledFrom([]string{"", "PRERELEASE"}).Draw(t, label+" label"),
	}
}

func TestVersionRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawVersion(t, "a"), drawVersion(t, "b"), drawVersion(t, "c")
		if read, err := fdb.ParseVersion("v" + a.String() + ";"); err != nil || read != a {
			t.Fatalf("%v is read as %+v, with %v", a, read, err)
		}
		if a.Compare(b) != -b.Compare(a) {
			t.Fatalf("%v and %v have no order", a, b)
		}
		if a.Compare(b) <= 0 && b.Compare(c) <= 0 && a.Compare(c) > 0 {
			t.Fatalf("%v, %v and %v are a circle", a, b, c)
		}
		if a.ProtocolCompatible(b) != b.ProtocolCompatible(a) || !a.ProtocolCompatible(a) {
			t.Fatalf("the protocols of %v and %v", a, b)
		}
		change := fdb.ChangeOf(a, b)
		if change.Compatible == change.Incompatible || change.Upgrade && !change.AtLeast || change.AtLeast && !change.Allowed ||
			!change.Allowed && change.Compatible {
			t.Fatalf("%v to %v is %+v", a, b, change)
		}
		if a.SameLine(b) && a.Compare(b) <= 0 {
			for _, feature := range []fdb.Feature{fdb.FeatureSidecarPresent, fdb.FeatureRecoveryState, fdb.FeatureLocalityExclusion, fdb.FeatureDeadTesters, fdb.FeatureBackupEncryption, fdb.FeatureMutationLogType} {
				if a.Has(feature) && !b.Has(feature) {
					t.Fatalf("%v has %s, %v has not", a, feature, b)
				}
			}
		}
	})
}
