package sim

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/fdb"
)

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
	return target == a.Host || target == a.WithoutFlags()
}

// excluded tells whether a server is excluded.
func (c *Cluster) excluded(addresses []fdb.Address, locality map[string]string) bool {
	return slices.ContainsFunc(c.exclusions, func(target string) bool { return excludedBy(target, addresses, locality) })
}

// Exclusions returns what is excluded, sorted.
func (c *Cluster) Exclusions() []string { return slices.Clone(c.exclusions) }

// isExclusion tells whether a text is an IP or an IP with port. Source: foundationdb 7.3.69,
// fdbclient/FDBTypes.cpp, AddressExclusion::parse.
func isExclusion(text string) bool {
	if _, err := netip.ParseAddr(text); err == nil {
		return true
	}
	at, err := netip.ParseAddrPort(text)
	return err == nil && at.Port() != 0
}

// exclude adds targets to the list.
func (c *Cluster) exclude(targets []string) {
	changed := false
	for _, target := range targets {
		at, found := slices.BinarySearch(c.exclusions, target)
		if !found {
			c.exclusions = slices.Insert(c.exclusions, at, target)
			changed = true
		}
	}
	if !changed {
		return
	}
	c.say("excluded: %s", strings.Join(targets, " "))
	c.judgeExclude(targets)
	c.touch("\xff/conf/excluded/")
	c.listChanged()
}

// include removes targets from the list; a bare IP removes those with a port too.
func (c *Cluster) include(targets []string, all bool) {
	before := len(c.exclusions)
	c.exclusions = slices.DeleteFunc(c.exclusions, func(own string) bool {
		return all || slices.ContainsFunc(targets, func(target string) bool {
			if own == target {
				return true
			}
			at, err := netip.ParseAddrPort(own)
			return err == nil && at.Addr().String() == target
		})
	})
	if len(c.exclusions) == before {
		return
	}
	c.say("included: %s", strings.Join(targets, " "))
	c.judgeInclude(targets)
	c.touch("\xff/conf/excluded/")
	c.listChanged()
}

// listChanged has the cluster controller read the configuration again. In the middle of a recovery it
// ends itself. Source: foundationdb 7.3.69, fdbserver/ClusterRecovery.actor.cpp, configurationMonitor.
func (c *Cluster) listChanged() {
	if state := c.recovery.state; state >= acceptingCommits && state != allLogsRecruited && state != fullyRecovered {
		c.coordination.controller = nil
		c.recover("the list of exclusions changed during a recovery")
	}
	c.review("the list of exclusions changed")
}

// exclusionsInProgress returns the addresses of servers that are excluded and still needed: storage
// servers of the list by address and locality, logs of all generations by address only. Source:
// foundationdb 7.3.69, fdbclient/SpecialKeySpace.actor.cpp, ExclusionInProgressActor.
func (c *Cluster) exclusionsInProgress() []fdb.Address {
	var found []fdb.Address
	for _, s := range c.servers {
		if c.excluded(s.Addresses, s.Locality) {
			found = append(found, s.Addresses...)
		}
	}
	for _, g := range c.recovery.generations {
		for _, l := range g.all() {
			if c.excluded([]fdb.Address{l.address}, nil) {
				found = append(found, l.address)
			}
		}
	}
	return found
}

// resolveLocality returns the addresses, without flags, of the processes and storage servers that a
// locality names.
func (c *Cluster) resolveLocality(target string) []string {
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
	for _, p := range c.workers() {
		add(p.Addresses, p.Locality)
	}
	for _, s := range c.servers {
		add(s.Addresses, s.Locality)
	}
	return found
}

// leavesTooLittle tells whether the servers that remain would be more than nine tenths full. Exclusions
// without storage servers are not asked for space. Source: foundationdb 7.3.69,
// fdbclient/SpecialKeySpace.actor.cpp, checkExclusion.
func (c *Cluster) leavesTooLittle(targets []string) bool {
	var used, left int64
	excluded := 0
	for _, s := range c.servers {
		used += s.used(c)
		if c.excluded(s.Addresses, s.Locality) || slices.ContainsFunc(targets, func(t string) bool { return excludedBy(t, s.Addresses, s.Locality) }) {
			excluded++
			continue
		}
		left += c.options.DiskBytes
	}
	return excluded > 0 && (excluded == len(c.servers) || float64(used)/float64(max(left, 1)) > 0.9)
}

// kill ends the processes at these addresses; their launchers start them again. It returns an address
// that is not known; empty: none.
func (c *Cluster) kill(addresses []string) (unknown string) {
	var found []*process
	for _, text := range addresses {
		at := slices.IndexFunc(c.processes, func(p *process) bool {
			return p.joined && c.works(p) && slices.ContainsFunc(p.Addresses, func(a fdb.Address) bool { return a.WithoutFlags() == text })
		})
		if at < 0 {
			return text
		}
		found = append(found, c.processes[at])
	}
	c.say("kill: %s", strings.Join(addresses, " "))
	c.judgeEffect()
	for _, p := range found {
		if p.running {
			c.restart(p)
		}
	}
	return ""
}
