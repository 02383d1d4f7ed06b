package sim

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/fdb"
)

// exclusions are the servers that should hold nothing.
type exclusions struct {
	c       *Cluster
	targets []string // sorted
}

// excludedBy tells whether a target names a server: by IP, by IP and port of one of its addresses, or by
// a locality.
func excludedBy(target string, addresses []fdb.Address, locality map[string]string) bool {
	if rest, is := strings.CutPrefix(target, fdb.LocalityPrefix); is {
		name, value, _ := strings.Cut(rest, ":")
		own, has := locality[name]
		return has && own == value
	}
	return slices.ContainsFunc(addresses, func(a fdb.Address) bool { return covers(target, a) })
}

// covers tells whether an IP, or an IP with port, is that of an address.
func covers(target string, a fdb.Address) bool {
	if len(target) <= len(a.Host) {
		return target == a.Host
	}
	return (target[0] == '[' || target[:len(a.Host)] == a.Host) && target == a.WithoutFlags() // asked for every shard
}

// contain tells whether a server is excluded.
func (e *exclusions) contain(addresses []fdb.Address, locality map[string]string) bool {
	return slices.ContainsFunc(e.targets, func(target string) bool { return excludedBy(target, addresses, locality) })
}

// Exclusions returns what is excluded, sorted.
func (e *exclusions) Exclusions() []string { return slices.Clone(e.targets) }

// isExclusion tells whether a text is an IP or an IP with port. Source: foundationdb 7.3.69,
// fdbclient/FDBTypes.cpp, AddressExclusion::parse.
func isExclusion(text string) bool {
	if _, err := netip.ParseAddr(text); err == nil {
		return true
	}
	at, err := netip.ParseAddrPort(text)
	return err == nil && at.Port() != 0
}

// add adds targets to the list.
func (e *exclusions) add(targets []string) {
	changed := false
	for _, target := range targets {
		at, found := slices.BinarySearch(e.targets, target)
		if !found {
			e.targets = slices.Insert(e.targets, at, target)
			changed = true
		}
	}
	if !changed {
		return
	}
	e.c.say("excluded: %s", strings.Join(targets, " "))
	e.c.judge.exclude(targets)
	e.c.keys.touch("\xff/conf/excluded/")
	e.changed()
}

// remove removes targets from the list; a bare IP removes those with a port too.
func (e *exclusions) remove(targets []string, all bool) {
	before := len(e.targets)
	e.targets = slices.DeleteFunc(e.targets, func(own string) bool {
		return all || slices.ContainsFunc(targets, func(target string) bool {
			if own == target {
				return true
			}
			at, err := netip.ParseAddrPort(own)
			return err == nil && at.Addr().String() == target
		})
	})
	if len(e.targets) == before {
		return
	}
	e.c.say("included: %s", strings.Join(targets, " "))
	e.c.judge.include(targets)
	e.c.keys.touch("\xff/conf/excluded/")
	e.changed()
}

// changed has the cluster controller read the configuration again. In the middle of a recovery it
// ends itself. Source: foundationdb 7.3.69, fdbserver/ClusterRecovery.actor.cpp, configurationMonitor.
func (e *exclusions) changed() {
	if state := e.c.recovery.state; state >= acceptingCommits && state != allLogsRecruited && state != fullyRecovered {
		e.c.coordination.controller = nil
		e.c.recovery.start(because(changed, "the list of exclusions changed during a recovery"))
	}
	e.c.recovery.review(because(changed, "the list of exclusions changed"))
}

// inProgress returns the addresses of servers that are excluded and still needed: storage
// servers of the list by address and locality, logs of all generations by address only. Source:
// foundationdb 7.3.69, fdbclient/SpecialKeySpace.actor.cpp, ExclusionInProgressActor.
func (e *exclusions) inProgress() []fdb.Address {
	var found []fdb.Address
	for _, s := range e.c.storage.servers {
		if e.contain(s.Addresses, s.Locality) {
			found = append(found, s.Addresses...)
		}
	}
	for _, g := range e.c.recovery.generations {
		for _, l := range g.all() {
			if e.contain([]fdb.Address{l.address}, nil) {
				found = append(found, l.address)
			}
		}
	}
	return found
}

// resolveLocality returns the addresses, without flags, of the processes and storage servers that a
// locality names.
func (e *exclusions) resolveLocality(target string) []string {
	var found []string
	add := func(addresses []fdb.Address, locality map[string]string) {
		if !excludedBy(target, nil, locality) {
			return
		}
		for _, a := range addresses {
			if text := a.WithoutFlags(); !slices.Contains(found, text) {
				found = append(found, text)
			}
		}
	}
	for _, p := range e.c.processes.workers() {
		add(p.Addresses, p.Locality)
	}
	for _, s := range e.c.storage.servers {
		add(s.Addresses, s.Locality)
	}
	return found
}

// leavesTooLittle tells whether the servers that remain would be more than nine tenths full. Exclusions
// without storage servers are not asked for space. Source: foundationdb 7.3.69,
// fdbclient/SpecialKeySpace.actor.cpp, checkExclusion.
func (e *exclusions) leavesTooLittle(targets []string) bool {
	var used, left int64
	excluded := 0
	for _, s := range e.c.storage.servers {
		used += s.used(e.c)
		if e.contain(s.Addresses, s.Locality) || slices.ContainsFunc(targets, func(t string) bool { return excludedBy(t, s.Addresses, s.Locality) }) {
			excluded++
			continue
		}
		left += e.c.options.DiskBytes
	}
	return excluded > 0 && (excluded == len(e.c.storage.servers) || float64(used)/float64(max(left, 1)) > 0.9)
}
