package servers

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/fdb"
)

// Coordinators are those of the connection string.
func (s Servers) Coordinators() []fdb.Address {
	c, err := fdb.ParseConnection(s.Cluster.Status.ConnectionString)
	if err != nil {
		return nil
	}
	return c.Coordinators
}

// Coordinate reports whether groups, which may be those of other operators, have a coordinator: by what their
// servers report, and those of this cluster also by their addresses.
func (s Servers) Coordinate(ids []string) bool {
	for _, c := range s.Coordinators() {
		for _, process := range s.Status.Cluster.Processes {
			name := process.DNSName()
			here := name != "" && strings.EqualFold(name, c.Host) ||
				slices.ContainsFunc(process.Addresses(), func(a fdb.Address) bool { return a.Host == c.Host && a.Port == c.Port })
			if here && slices.Contains(ids, process.Locality[fdb.InstanceLocality]) {
				return true
			}
		}
		for _, id := range ids {
			if g := s.group(id); g != nil && slices.Contains(g.Addresses, c.Host) {
				return true
			}
		}
	}
	return false
}

// NamesInUse reports whether the connection string holds a name, so that the headless service must stay.
func (s Servers) NamesInUse() bool {
	return slices.ContainsFunc(s.Coordinators(), func(a fdb.Address) bool { _, err := netip.ParseAddr(a.Host); return err != nil })
}
