package foundationdb

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// Zones of RemovalBatch that are none. Source: fdb-kubernetes-operator 2.33.0, internal/removals/remove.go.
const (
	unknownZone = "foundationdb.org/unknown" // of groups without a zone
	allZones    = "cluster"                  // of a batch of all groups
	noZone      = "None"                     // of no batch, where the mode is None
)

// RemovalGroup is a group that may be removed.
type RemovalGroup struct {
	ID   string `json:"processGroupID"`
	Zone string `json:"faultDomain,omitempty"`
	// Terminating: its removal has begun. Such groups go on outside of the batches.
	Terminating bool `json:"terminating,omitempty"`
}

// RemovalBatch returns what is removed next: all groups, those of one zone, one group, or none. The zone is that
// with the most groups, of several the first by name; the group is the first of that zone. It fails with
// SpecInvalid for an unknown mode.
func RemovalBatch(groups []RemovalGroup, mode v1beta2.PodUpdateMode) (zone string, ids []string, err error) {
	zones := map[string][]string{}
	var all []string
	for _, g := range groups {
		all = append(all, g.ID)
		if !g.Terminating {
			of := either(g.Zone, unknownZone)
			zones[of] = append(zones[of], g.ID)
		}
	}
	for of, members := range zones {
		slices.Sort(members)
		if zone == "" || cmp.Or(cmp.Compare(len(members), len(zones[zone])), strings.Compare(zone, of)) > 0 {
			zone = of
		}
	}
	ids = zones[zone]
	switch mode {
	case v1beta2.PodUpdateZone, "":
		return zone, ids, nil
	case v1beta2.PodUpdateProcessGroup:
		return zone, ids[:min(1, len(ids))], nil
	case v1beta2.PodUpdateAll:
		slices.Sort(all)
		return allZones, all, nil
	case v1beta2.PodUpdateNone:
		return noZone, nil, nil
	}
	return "", nil, SpecInvalid.Errorf("spec.automationOptions: %q is no mode: All, Zone, ProcessGroup or None", mode)
}

// RemovalWait returns how long the next removal must wait after the last one. 0: it may begin now.
func RemovalWait(last, now time.Time, wait time.Duration) time.Duration {
	if last.IsZero() {
		return 0
	}
	return max(0, last.Add(wait).Sub(now))
}
