package cluster

import (
	"strconv"
	"strings"

	"golang.org/x/mod/semver"
)

// ValidateUpgrade checks a change of versions (x.y.z): no downgrade, at most one
// minor version. The present version is allowed: so a failed upgrade can continue.
// CLUSTER_INVALID.
func ValidateUpgrade(from, to string) error {
	target, ok := semantic(to)
	if !ok {
		return invalidVersion("version %q is not x.y.z", to)
	}
	if from == "" {
		return nil // the running version is unknown
	}
	now, ok := semantic(from)
	switch {
	case !ok:
		return invalidVersion("the cluster's version %q is not x.y.z", from)
	case semver.Compare(target, now) < 0:
		return invalidVersion("from %s to %s is a downgrade", from, to)
	case semver.Major(target) != semver.Major(now) || minor(target) > minor(now)+1:
		return invalidVersion("from %s to %s is more than one minor version", from, to)
	}
	return nil
}

// SameVersion reports whether both are the same x.y.z, with or without a leading v.
// A release candidate is not its release.
func SameVersion(a, b string) bool {
	v, ok := semantic(a)
	w, too := semantic(b)
	return ok && too && v == w
}

// semantic returns the canonical form of a version x.y.z, with or without a leading
// v. It drops build metadata after a plus.
func semantic(text string) (string, bool) {
	v := "v" + strings.TrimPrefix(text, "v")
	core, _, _ := strings.Cut(strings.SplitN(v, "+", 2)[0], "-")
	return semver.Canonical(v), semver.IsValid(v) && strings.Count(core, ".") == 2
}

// minor returns y of a canonical version x.y.z.
func minor(v string) int {
	_, y, _ := strings.Cut(semver.MajorMinor(v), ".")
	n, _ := strconv.Atoi(y) // always valid: the version is canonical
	return n
}

func invalidVersion(format string, args ...any) error {
	return ClusterInvalid.Errorf(format, args...).With("parameter", "versionid")
}
