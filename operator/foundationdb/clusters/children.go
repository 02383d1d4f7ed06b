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

// coordinate reports whether groups, which may be those of other operators, have a coordinator: by what their
// servers report, and those of this cluster also by their addresses.
func (p *pass) coordinate(ids []string) bool {
	for _, c := range p.coordinators() {
		for _, process := range p.status.Cluster.Processes {
			name := process.Locality[fdb.DNSNameLocality]
			here := name != "" && strings.EqualFold(name, c.Host) ||
				slices.ContainsFunc(process.Addresses(), func(a fdb.Address) bool { return a.Host == c.Host && a.Port == c.Port })
			if here && slices.Contains(ids, process.Locality[fdb.InstanceLocality]) {
				return true
			}
		}
		for _, id := range ids {
			if g := p.group(v1beta2.ProcessGroupID(id)); g != nil && slices.Contains(g.Addresses, c.Host) {
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
