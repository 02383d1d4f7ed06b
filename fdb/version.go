package fdb

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"github.com/pawl-dev/pawl/fault"
)

// VersionInvalid says that a text holds no version.
var VersionInvalid = fault.Declare(fault.Kind{
	Code: "FDB_VERSION_INVALID", Class: fault.Invalid,
	Title:  "a text is no version of FoundationDB",
	Remedy: "Write the version as major.minor.patch, for example 7.3.69; a release candidate as 7.4.0-rc1.",
	Guide:  "foundationdb.md#upgrade",
})

// Version is a release of FoundationDB: 7.3.69, 7.4.0-rc1, 7.3.0-PRERELEASE.
type Version struct {
	Major, Minor, Patch int
	Candidate           int    // of a release candidate: 1 of -rc1; 0: none
	Label               string // PRERELEASE of -PRERELEASE; empty: none
}

var versionForm = regexp.MustCompile(`(\d+)\.(\d+)\.(\d+)(?:-rc(\d+))?(?:-(PRERELEASE))?`)

// ParseVersion reads the first major.minor.patch of a text, with the release candidate that follows
// it. It fails with VersionInvalid.
func ParseVersion(text string) (Version, error) {
	found := versionForm.FindStringSubmatch(text)
	if found == nil {
		return Version{}, VersionInvalid.Errorf("%q holds no major.minor.patch", text)
	}
	var numbers [4]int
	for i, digits := range found[1:5] {
		if digits == "" {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 32)
		if err != nil {
			return Version{}, VersionInvalid.Errorf("%q: the number %s is too large", text, digits)
		}
		numbers[i] = int(n)
	}
	return Version{Major: numbers[0], Minor: numbers[1], Patch: numbers[2], Candidate: numbers[3], Label: found[5]}, nil
}

// String returns the version as ParseVersion reads it.
func (v Version) String() string {
	text := fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch)
	if v.Candidate > 0 {
		text += fmt.Sprintf("-rc%d", v.Candidate)
	}
	if v.Label != "" {
		text += "-" + v.Label
	}
	return text
}

// Short returns the line of versions: 7.3.
func (v Version) Short() string { return fmt.Sprintf("%d.%d", v.Major, v.Minor) }

// Compare returns -1, 0 or 1: v is older than other, as old, or newer. A release candidate is older
// than its release; the label does not count.
func (v Version) Compare(other Version) int {
	return cmp.Or(
		cmp.Compare(v.Major, other.Major),
		cmp.Compare(v.Minor, other.Minor),
		cmp.Compare(v.Patch, other.Patch),
		cmp.Compare(v.candidate(), other.candidate()),
	)
}

// candidate orders release candidates before the release.
func (v Version) candidate() int {
	if v.Candidate <= 0 {
		return 1<<31 - 1
	}
	return v.Candidate
}

// Supported tells whether the operator can run this version: 7.1.0 and newer, no release candidate
// of 7.1.0.
func (v Version) Supported() bool { return v.Compare(Version{Major: 7, Minor: 1}) >= 0 }

// SameLine tells whether two versions have the same major and minor number.
func (v Version) SameLine(other Version) bool {
	return v.Major == other.Major && v.Minor == other.Minor
}

// ProtocolCompatible tells whether processes of the two versions can talk to each other: the same
// line, and neither is a different release candidate.
func (v Version) ProtocolCompatible(other Version) bool {
	return v.SameLine(other) && v.Candidate == other.Candidate
}

// Feature is something that only some versions can do.
type Feature string

const (
	FeatureRecoveryState     Feature = "RecoveryState"     // the status tells the time since the last recovery
	FeatureLocalityExclusion Feature = "LocalityExclusion" // exclude takes localities
	FeatureDeadTesters       Feature = "DeadTesters"       // dead testers leave the status by themselves
	FeatureBackupEncryption  Feature = "BackupEncryption"  // fdbbackup and fdbrestore take --encryption-key-file
	FeatureMutationLogType   Feature = "MutationLogType"   // fdbbackup takes --mutation-log-type
	FeatureSidecarPresent    Feature = "SidecarPresent"    // the sidecar serves is_present
)

// features has the first versions with a feature, a line of versions each. Lines between two of them
// count as older; lines after the last one have the feature. Source: fdb-kubernetes-operator 2.33.0,
// api/v1beta2/foundationdb_version.go.
var features = map[Feature][]Version{
	FeatureSidecarPresent:    {{Major: 7, Minor: 1, Patch: 4}},
	FeatureRecoveryState:     {{Major: 7, Minor: 1, Patch: 22}},
	FeatureLocalityExclusion: {{Major: 7, Minor: 1, Patch: 42}, {Major: 7, Minor: 3, Patch: 26}},
	FeatureDeadTesters:       {{Major: 7, Minor: 1, Patch: 55}, {Major: 7, Minor: 3, Patch: 35}},
	FeatureBackupEncryption:  {{Major: 7, Minor: 3, Patch: 73}, {Major: 7, Minor: 4, Patch: 6}},
	FeatureMutationLogType:   {{Major: 7, Minor: 4, Patch: 7}},
}

// Has tells whether the version has a feature. No version has an unknown one.
func (v Version) Has(f Feature) bool {
	since := features[f]
	for i, first := range since {
		if (v.SameLine(first) || i == len(since)-1) && v.Compare(first) >= 0 {
			return true
		}
	}
	return false
}

// VersionChange says what a change from the running to the desired version is.
type VersionChange struct {
	Allowed      bool `json:"allowed"`      // newer, the same, or of the same protocol
	Upgrade      bool `json:"upgrade"`      // to a newer version
	Compatible   bool `json:"compatible"`   // both speak the same protocol
	Incompatible bool `json:"incompatible"` // they do not: all processes restart at once
	AtLeast      bool `json:"atLeast"`      // desired is running or newer
}

// ChangeOf judges a change of version.
func ChangeOf(running, desired Version) VersionChange {
	compatible, order := running.ProtocolCompatible(desired), desired.Compare(running)
	return VersionChange{
		Allowed:      compatible || order >= 0,
		Upgrade:      order > 0,
		Compatible:   compatible,
		Incompatible: !compatible,
		AtLeast:      order >= 0,
	}
}

// RunningVersion returns the version that most processes run; of several the newest. Without any it
// returns keep. What is no version is not counted.
func RunningVersion(counts map[string]int, keep string) string {
	type count struct {
		text    string
		version Version
		n       int
	}
	var known []count
	for text, n := range counts {
		if version, err := ParseVersion(text); err == nil && n > 0 {
			known = append(known, count{text, version, n})
		}
	}
	if len(known) == 0 {
		return keep
	}
	return slices.MaxFunc(known, func(a, b count) int {
		return cmp.Or(cmp.Compare(a.n, b.n), a.version.Compare(b.version), cmp.Compare(b.text, a.text))
	}).text
}
