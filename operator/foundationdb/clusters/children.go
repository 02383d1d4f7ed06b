package clusters

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/operator/foundationdb/port"
)

func objectNames[T port.Object](objects []T) []string {
	texts := make([]string, len(objects))
	for i, o := range objects {
		texts[i] = o.GetName()
	}
	return texts
}

func metaTime(t time.Time) metav1.Time { return metav1.NewTime(t).Rfc3339Copy() }

// dnsName is the name of a group's pod; empty where names are not used.
func (p *pass) dnsName(id v1beta2.ProcessGroupID) string {
	parsed, err := fdb.ParseGroupID(string(id))
	if err != nil || !foundationdb.DefinesDNS(p.cluster.Spec) {
		return ""
	}
	return foundationdb.DNSName(p.cluster, parsed)
}

// exclusions are what the database excludes: localities and addresses.
func (p *pass) exclusions() []string {
	if p.status == nil || p.status.Cluster.Configuration == nil {
		return nil
	}
	var found []string
	for _, e := range p.status.Cluster.Configuration.ExcludedServers {
		if e.Locality != "" {
			found = append(found, e.Locality)
		}
		if e.Address != "" {
			found = append(found, e.Address)
		}
	}
	return found
}

// cutLocality returns the group that an exclusion names by its locality.
func cutLocality(exclusion string) (v1beta2.ProcessGroupID, bool) {
	id, ok := strings.CutPrefix(exclusion, fdb.LocalityPrefix+fdb.InstanceLocality+":")
	return v1beta2.ProcessGroupID(id), ok
}

// coordinators are those of the connection string.
func (p *pass) coordinators() []fdb.Address {
	c, err := fdb.ParseConnection(p.cluster.Status.ConnectionString)
	if err != nil {
		return nil
	}
	return c.Coordinators
}

// coordinates reports whether a group has a coordinator.
func (p *pass) coordinates(g *v1beta2.ProcessGroupStatus) bool {
	for _, c := range p.coordinators() {
		if slices.Contains(g.Addresses, c.Host) {
			return true
		}
		for _, process := range p.processes[g.ProcessGroupID] {
			for _, a := range process.Addresses() {
				if a.Host == c.Host && a.Port == c.Port {
					return true
				}
			}
			if name := process.Locality[fdb.DNSNameLocality]; name != "" && strings.EqualFold(name, c.Host) {
				return true
			}
		}
	}
	return false
}

// namesInUse reports whether the connection string holds a name, so that the headless service must stay.
func (p *pass) namesInUse() bool {
	return slices.ContainsFunc(p.coordinators(), func(a fdb.Address) bool { _, err := netip.ParseAddr(a.Host); return err != nil })
}
