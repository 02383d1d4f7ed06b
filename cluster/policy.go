package cluster

import "slices"

// ValidateRecovery checks a recovery policy; nil is the default. CLUSTER_INVALID.
func ValidateRecovery(r Recovery) error {
	for _, m := range r {
		if !slices.Contains([]Remedy{Restart, Replace, Adopt}, m) {
			return ClusterInvalid.Errorf("recovery %q is none of restart, replace, adopt", m).With("parameter", "recovery")
		}
	}
	return nil
}

// ValidateOnFailure checks a failure policy; empty is the default. CLUSTER_INVALID.
func ValidateOnFailure(p OnFailure) error {
	if !slices.Contains([]OnFailure{"", Rollback, Lazy, KeepPartial}, p) {
		return ClusterInvalid.Errorf("onfailure %q is none of rollback, lazy, keep", p).With("parameter", "onfailure")
	}
	return nil
}
