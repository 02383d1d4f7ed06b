package fdb

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/fault"
)

// CoordinatorsUnknown is returned when the status does not say enough about coordinators.
var CoordinatorsUnknown = fault.Declare(fault.Kind{
	Code: "FDB_COORDINATORS_UNKNOWN", Class: fault.Transient,
	Title:  "the status of the database does not say enough about its coordinators",
	Remedy: "Wait for a complete status. If it does not come, look with fdbcli --exec 'status details' for processes that do not report.",
	Guide:  "foundationdb.md#if-it-does-not-go-on",
})

// CoordinatorWish says what coordinators a cluster should have.
type CoordinatorWish struct {
	// Configuration gives their number, their limits and the primary data center.
	Configuration Configuration `json:"databaseConfiguration"`
	TLS           bool          `json:"enableTls,omitempty"`
	DNS           bool          `json:"useDNSInClusterFile,omitempty"` // by name, as far as processes have one
	// Version is the version that processes should have; those of another one come last. Zero: any.
	Version Version `json:"version,omitzero"`
	// Selection are the classes that may be coordinators, with their priorities; empty: all that are
	// eligible.
	Selection []ClassPriority `json:"coordinatorSelection,omitempty"`
	// Leaving are the groups that are marked for removal.
	Leaving []string `json:"leaving,omitempty"`
}

// ClassPriority is the priority of a class; the highest comes first.
type ClassPriority struct {
	Class    Class `json:"processClass"`
	Priority int   `json:"priority"`
}

// CoordinatorVerdict says whether the coordinators are as they should be.
type CoordinatorVerdict struct {
	Valid bool `json:"valid"`
	// AddressesValid: every process has an address of the wanted kind. Until then, in the middle of a
	// change to or from TLS, coordinators must not be changed.
	AddressesValid bool     `json:"addressesValid"`
	Why            []string `json:"why,omitempty"` // what is wrong
}

func (v *CoordinatorVerdict) wrong(format string, args ...any) {
	v.Valid = false
	v.Why = append(v.Why, fmt.Sprintf(format, args...))
}

// CoordinatorLimits returns how many coordinators may share one value of a locality: one a zone; with
// several usable regions a fair share a data center, rounded up; with three data halls three a hall.
func CoordinatorLimits(c Configuration) map[string]int {
	limits := map[string]int{ZoneLocality: 1}
	count := CoordinatorCount(c.RedundancyMode, c.UsableRegions)
	if c.UsableRegions > 1 {
		dcs := map[string]bool{}
		for _, r := range c.Regions {
			for _, dc := range r.Datacenters {
				dcs[dc.ID] = true
			}
		}
		n := max(1, len(dcs))
		limits[DatacenterLocality] = (count + n - 1) / n
	}
	if c.RedundancyMode == ThreeDataHall {
		limits[DataHallLocality] = 3
	}
	return limits
}

// priorityOf returns the priority of a class and whether a process of it may be a coordinator.
func (w CoordinatorWish) priorityOf(c Class) (int, bool) {
	if !c.CoordinatorEligible() {
		return 0, false
	}
	for _, s := range w.Selection {
		if s.Class == c {
			return s.Priority, true
		}
	}
	return 0, len(w.Selection) == 0
}

// late reports whether a process will soon be replaced by one of the wanted version. A server that was
// started from /var/ runs a binary that the sidecar copied, so its pod has another version's image.
func (w CoordinatorWish) late(p Process) bool {
	if strings.HasPrefix(p.CommandLine, "/var/") {
		return true
	}
	if w.Version == (Version{}) {
		return false
	}
	v, err := ParseVersion(p.Version)
	return err != nil || v.Compare(w.Version) != 0
}

// SelectCoordinators returns the coordinators that the cluster should have. Candidates report, are
// neither excluded nor unreachable nor under maintenance nor leaving, have an eligible class, each
// locality that is limited, and an address of the wanted kind. The order: priority of the class by
// the wish, then by default, primary data center, id; processes that are late or lack a wanted name
// come last. It returns TooFewCandidates when that leaves too few; the old coordinators then stay.
func SelectCoordinators(s *Status, w CoordinatorWish) ([]Address, error) {
	if s == nil || len(s.Cluster.Processes) == 0 {
		return nil, CoordinatorsUnknown.Errorf("the status shows no processes")
	}
	limits := CoordinatorLimits(w.Configuration)
	options := w.options(s, limits)
	candidates := make([]Candidate, len(options))
	for i, o := range options {
		candidates[i] = o.Candidate
		candidates[i].Priority = -i
	}
	fields := []string{ZoneLocality, DatacenterLocality}
	if limits[DataHallLocality] > 0 {
		fields = append(fields, DataHallLocality)
	}
	selected, err := Spread(candidates, CoordinatorCount(w.Configuration.RedundancyMode, w.Configuration.UsableRegions), fields, limits)
	if err != nil {
		return nil, err
	}
	addresses := make([]Address, len(selected))
	for i, c := range selected {
		addresses[i] = c.Address
	}
	return addresses, nil
}

// option is a candidate with what decides its place.
type option struct {
	Candidate
	late, unnamed, primary bool
}

// options returns the processes that can be coordinators, the best first.
func (w CoordinatorWish) options(s *Status, limits map[string]int) []option {
	primary := w.Configuration.primary()
	var found []option
	for _, p := range s.Cluster.Processes {
		priority, eligible := w.priorityOf(p.Class)
		address, fits := p.addressOf(w.TLS)
		if !eligible || !fits || !available(p, s) || slices.Contains(w.Leaving, p.Locality[InstanceLocality]) {
			continue
		}
		if slices.ContainsFunc(slices.Collect(maps.Keys(limits)), func(field string) bool { return p.Locality[field] == "" }) {
			continue
		}
		o := option{late: w.late(p), primary: primary != "" && p.Locality[DatacenterLocality] == primary}
		address.FromHostname = false
		if name := p.DNSName(); w.DNS && name != "" {
			address.Host = name
		} else {
			o.unnamed = w.DNS
		}
		o.Candidate = Candidate{ID: cmp.Or(p.Locality[InstanceLocality], p.ID), Address: address, Class: p.Class, Locality: p.Locality, Priority: priority}
		found = append(found, o)
	}
	slices.SortStableFunc(found, func(a, b option) int {
		return cmp.Or(
			trueLast(a.late, b.late),
			trueLast(a.unnamed, b.unnamed),
			cmp.Compare(b.Priority, a.Priority),
			cmp.Compare(b.Class.CoordinatorPriority(), a.Class.CoordinatorPriority()),
			trueLast(b.primary, a.primary),
			cmp.Compare(a.ID, b.ID),
			cmp.Compare(a.Address.String(), b.Address.String()),
		)
	})
	return found
}

func trueLast(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

// available reports whether a process is known to be neither excluded nor unreachable nor under
// maintenance.
func available(p Process, s *Status) bool {
	if p.Excluded == nil || *p.Excluded || p.UnderMaintenance {
		return false
	}
	if zone := s.Cluster.MaintenanceZone; zone != "" && p.Locality[ZoneLocality] == zone {
		return false
	}
	for _, m := range s.Cluster.Messages {
		for _, u := range m.UnreachableProcesses {
			if p.at(u.Address) {
				return false
			}
		}
	}
	return true
}

// primary returns the main data center that is to lead; empty without regions.
func (c Configuration) primary() string {
	var best Datacenter
	for i, r := range c.Regions {
		if main := r.main(); i == 0 || main.Priority > best.Priority {
			best = main
		}
	}
	return best.ID
}

// JudgeCoordinators judges the coordinators that the client sees. Each must be reachable and a process
// that reports, is not excluded, and has an eligible class, the wanted kind of address, and the wanted
// form of it: its name if names are wanted and it has one, else its IP. Their number must be right and
// the limits kept. Being under maintenance, or marked for removal, makes none invalid. It returns
// CoordinatorsUnknown when the status lacks one of these.
func JudgeCoordinators(s *Status, w CoordinatorWish) (CoordinatorVerdict, error) {
	if s == nil || len(s.Client.Coordinators.Coordinators) == 0 {
		return CoordinatorVerdict{}, CoordinatorsUnknown.Errorf("the status shows no coordinators")
	}
	if len(s.Cluster.Processes) == 0 {
		return CoordinatorVerdict{}, CoordinatorsUnknown.Errorf("the status shows no processes")
	}
	v := CoordinatorVerdict{Valid: true, AddressesValid: true}
	for _, p := range s.Cluster.Processes {
		if p.Class == ClassTest || len(p.Locality) == 0 || slices.Contains(w.Leaving, p.Locality[InstanceLocality]) {
			continue // what leaves is not restarted for that
		}
		if _, fits := p.addressOf(w.TLS); !fits {
			v.AddressesValid = false
		}
	}
	limits := CoordinatorLimits(w.Configuration)
	shared := map[string]map[string]int{}
	for field := range limits {
		shared[field] = map[string]int{}
	}
	for _, c := range s.Client.Coordinators.Coordinators {
		p, err := v.judge(c, s, w)
		if err != nil {
			return CoordinatorVerdict{}, err
		}
		if p == nil {
			continue
		}
		for field := range limits {
			value, known := p.Locality[field]
			if !known {
				return CoordinatorVerdict{}, CoordinatorsUnknown.Errorf("the status does not say the %s of %s", field, p.name())
			}
			shared[field][value]++
		}
	}
	for _, field := range slices.Sorted(maps.Keys(limits)) {
		for _, value := range slices.Sorted(maps.Keys(shared[field])) {
			if n := shared[field][value]; n > limits[field] {
				v.wrong("%d coordinators have the %s %s, at most %d may", n, field, value, limits[field])
			}
		}
	}
	if have, want := len(s.Client.Coordinators.Coordinators), CoordinatorCount(w.Configuration.RedundancyMode, w.Configuration.UsableRegions); have != want {
		v.wrong("there are %d coordinators, there should be %d", have, want)
	}
	return v, nil
}

// judge judges one coordinator and returns its process, if one reports.
func (v *CoordinatorVerdict) judge(c Coordinator, s *Status, w CoordinatorWish) (*Process, error) {
	if c.Address == (Address{}) || c.Reachable == nil {
		return nil, CoordinatorsUnknown.Errorf("the status does not say where a coordinator is, or whether %s is reachable", c.Address)
	}
	if !*c.Reachable {
		v.wrong("%s is not reachable", c.Address)
	}
	if c.Address.TLS != w.TLS {
		v.wrong("%s has TLS %t, it should have %t", c.Address, c.Address.TLS, w.TLS)
	}
	i := slices.IndexFunc(s.Cluster.Processes, func(p Process) bool { return p.at(c.Address) })
	if i < 0 {
		if slices.ContainsFunc(s.Cluster.Processes, func(p Process) bool { return p.Address == (Address{}) }) {
			return nil, CoordinatorsUnknown.Errorf("a process reports without address, it may be coordinator %s", c.Address)
		}
		v.wrong("no process reports at %s", c.Address)
		return nil, nil //nolint:nilnil // no process is no error
	}
	p := &s.Cluster.Processes[i]
	if p.Excluded == nil || p.Class == "" || len(p.Locality) == 0 {
		return nil, CoordinatorsUnknown.Errorf("the status does not say the class or the localities of %s, or whether it is excluded", p.name())
	}
	if *p.Excluded {
		v.wrong("%s (%s) is excluded", c.Address, p.name())
	}
	if _, eligible := w.priorityOf(p.Class); !eligible {
		v.wrong("%s (%s) has class %s, which may not be a coordinator", c.Address, p.name(), p.Class)
	}
	named := c.Address.FromHostname || strings.EqualFold(c.Address.Host, p.DNSName())
	if wanted := w.DNS && p.DNSName() != ""; named != wanted {
		form := map[bool]string{true: "name", false: "IP"}
		v.wrong("%s (%s) is given by %s, it should be by %s", c.Address, p.name(), form[named], form[wanted])
	}
	return p, nil
}
