package fdb

import (
	"net/netip"
	"slices"
	"strings"
)

// ExclusionBudget returns how many more groups of a class may be excluded: of the valid ones, plus the
// fault tolerance that the count carries as spares, so many must stay as are desired. valid counts
// groups of which the processes report and the exclusion is not finished, ongoing those that are
// excluded and not yet free of roles.
func ExclusionBudget(valid, desired, ongoing, tolerance int) int {
	return max(0, valid+tolerance-desired-ongoing)
}

// unsureRoles are the messages with which roles may be missing from the status: the lists of storage
// and log servers, or the configuration, could not be read (fdbserver/Status.actor.cpp, 7.3.69).
var unsureRoles = []string{"unreadable_configuration", "full_replication_timeout", "storage_servers_error", "log_servers_error"}

// Removable returns the targets that are not safe to remove; nil if all are. A target names one group
// by everything it is known by, joined by commas: locality_instance_id:storage-1, and each address it
// has or had, as an IP, ip:port or name:port. Several groups on one IP need ip:port for each server.
//
// A target is safe when the gate Exclude is open, one generation of logs is active, no message says
// that roles may be missing, no address of it is a coordinator, each of its servers that reports is
// excluded and has no role, and exclude, called once for each such target, returns Ok. exclude blocks
// until the data has moved, or gives up. It is given the locality, and those addresses of the target
// at which no process reports any more, since a locality excludes reporting processes only; an address
// that another group has by now is left out.
func Removable(s *Status, targets []string, l Limits, exclude func([]string) Result) (notSafe []string) {
	if s == nil || exclude == nil || !rolesKnown(s, l) {
		return slices.Clone(targets)
	}
	coordinators, known := coordinatorsOf(s)
	for _, text := range targets {
		t, ok := parseTarget(text)
		if !ok || !known || !t.free(s, coordinators) {
			notSafe = append(notSafe, text)
			continue
		}
		names := t.excluded(s)
		if len(names) == 0 || exclude(names).Outcome != Ok {
			notSafe = append(notSafe, text)
		}
	}
	return notSafe
}

// rolesKnown reports whether the roles in the status can be relied on. While old generations of logs
// are active, their logs hold mutations but no role is shown for them.
func rolesKnown(s *Status, l Limits) bool {
	counts := map[string]int{}
	for _, p := range s.Cluster.Processes {
		if p.Version != "" {
			counts[p.Version]++
		}
	}
	running, err := ParseVersion(RunningVersion(counts, ""))
	if err != nil || !Open(GateExclude, s, l, running).Open || *s.Cluster.RecoveryState.ActiveGenerations > 1 {
		return false
	}
	return !slices.ContainsFunc(s.Cluster.Messages, func(m Message) bool { return slices.Contains(unsureRoles, m.Name) })
}

// coordinatorsOf returns the coordinators that the client sees and those of the connection string.
func coordinatorsOf(s *Status) (found []Address, known bool) {
	for _, c := range s.Client.Coordinators.Coordinators {
		if c.Address == (Address{}) {
			return nil, false
		}
		found = append(found, c.Address)
	}
	if c, err := ParseConnection(s.Cluster.ConnectionString); err == nil {
		found = append(found, c.Coordinators...)
	}
	return found, len(s.Client.Coordinators.Coordinators) > 0
}

// target is what one group is known by.
type target struct {
	localities [][2]string // name without prefix, value
	addresses  []Address   // IPs, with or without port
	names      []Address   // DNS names
}

// parseTarget refuses what cannot become part of a command.
func parseTarget(text string) (t target, ok bool) {
	for part := range strings.SplitSeq(text, ",") {
		if locality, found := strings.CutPrefix(part, LocalityPrefix); found {
			if CheckWord(WordLocality, part) != nil {
				return target{}, false
			}
			name, value, _ := strings.Cut(locality, ":")
			t.localities = append(t.localities, [2]string{name, value})
			continue
		}
		a, err := ParseAddress(part)
		if err != nil {
			return target{}, false
		}
		if _, err := netip.ParseAddr(a.Host); err == nil {
			t.addresses = append(t.addresses, a)
		} else {
			t.names = append(t.names, a)
		}
	}
	return t, len(t.localities)+len(t.addresses) > 0
}

// standing is what a process is to a target.
type standing int

const (
	foreign standing = iota // of another group
	own
	unsure // the status does not say
)

// of judges a process. One at an address of the target is its own unless its locality says that it is
// another's.
func (t target) of(p Process) standing {
	said := len(t.localities) == 0 // whether the localities that decide are known
	for _, l := range t.localities {
		value, known := p.Locality[l[0]]
		if known && value == l[1] {
			return own
		}
		said = said || known
	}
	switch {
	case len(t.localities) > 0 && said:
		return foreign
	case slices.ContainsFunc(t.addresses, p.listens):
		return own
	case len(t.addresses) == 0 || len(p.Addresses()) == 0:
		return unsure
	}
	return foreign
}

// has reports whether an IP address is one of the target's; one without port stands for all ports.
func (t target) has(a Address) bool {
	return slices.ContainsFunc(t.addresses, func(own Address) bool { return covers(own, a) })
}

func covers(own, a Address) bool {
	return strings.EqualFold(own.Host, a.Host) && (own.Port == 0 || own.Port == a.Port)
}

// free reports whether all servers of the target that report are excluded and without roles, and no
// coordinator is or may be one of them.
func (t target) free(s *Status, coordinators []Address) bool {
	var servers []Process
	for _, p := range s.Cluster.Processes {
		switch t.of(p) {
		case unsure:
			return false
		case own:
			if p.Excluded == nil || !*p.Excluded || p.Roles == nil || len(p.Roles) > 0 {
				return false
			}
			servers = append(servers, p)
		}
	}
	for _, c := range coordinators {
		if t.mayBe(c, s, servers) {
			return false
		}
	}
	return true
}

// mayBe reports whether a coordinator is one of the target's servers, or cannot be told from them.
func (t target) mayBe(c Address, s *Status, servers []Process) bool {
	if slices.ContainsFunc(servers, func(p Process) bool { return p.listens(c) }) {
		return true
	}
	if slices.ContainsFunc(s.Cluster.Processes, func(p Process) bool { return p.listens(c) && t.of(p) == foreign }) {
		return false
	}
	if _, err := netip.ParseAddr(c.Host); err == nil {
		return t.has(c) || len(t.addresses) == 0 && len(servers) == 0
	}
	if slices.ContainsFunc(t.names, func(own Address) bool { return covers(own, c) }) {
		return true
	}
	named := slices.ContainsFunc(servers, func(p Process) bool { return p.DNSName() != "" })
	return len(t.names) == 0 && !named
}

// excluded returns what the blocking exclude is to name.
func (t target) excluded(s *Status) []string {
	var names []string
	for _, l := range t.localities {
		names = append(names, LocalityPrefix+l[0]+":"+l[1])
	}
	for _, a := range t.addresses {
		reports := slices.ContainsFunc(s.Cluster.Processes, func(p Process) bool { return p.listens(a) })
		if !reports || len(t.localities) == 0 {
			names = append(names, a.WithoutFlags())
		}
	}
	return names
}
