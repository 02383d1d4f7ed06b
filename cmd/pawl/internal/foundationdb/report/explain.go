package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/view/fdbview"
)

// Gate judges a gate of the cluster.
func (f Facts) Gate(name fdb.Gate) fdb.Verdict {
	if f.Status == nil {
		return fdb.Verdict{Reason: fdb.DatabaseSilent, Message: cmp.Or(f.Silence, "the database was not read")}
	}
	running, err := fdb.ParseVersion(f.Cluster.Status.RunningVersion)
	if err != nil {
		return fdb.Verdict{Reason: fdb.StatusIncomplete, Message: "the running version is not known"}
	}
	limits := fdb.Limits{MinimumUptime: time.Duration(f.Cluster.Spec.MinimumUptimeSecondsForBounce) * time.Second}
	return fdb.Open(name, f.Status, limits, running)
}

// Explain tells all of a group. It fails with control.NotFound.
func Explain(f Facts, id v1beta2.ProcessGroupID) (Explanation, error) {
	i := slices.IndexFunc(f.Cluster.Status.ProcessGroups, func(g v1beta2.ProcessGroupStatus) bool { return g.ProcessGroupID == id })
	if i < 0 {
		return Explanation{}, control.NotFound.Errorf("%s/%s has no group %s", f.Cluster.Namespace, f.Cluster.Name, id)
	}
	g := f.Cluster.Status.ProcessGroups[i]
	v := Explanation{
		Cluster: f.Cluster.Namespace + "/" + f.Cluster.Name, Class: string(g.ProcessClass), Zone: g.FaultDomain,
		Group: groupOf(f.Cluster, g, PlanOf(f.Cluster)), Servers: []Server{}, Gates: []Gate{},
	}
	if f.Status == nil {
		v.Silence = cmp.Or(f.Silence, "the database was not read")
	}
	v.Pod = cmp.Or(append(podsOf(f.Cluster, []string{string(id)}), "")...)
	if pod := f.Pods[id]; pod != nil {
		v.Pod, v.Node, v.Phase = pod.Name, pod.Spec.NodeName, string(pod.Status.Phase)
	}
	for _, p := range f.processes(id) {
		s := Server{Address: p.Address.String(), Version: p.Version, Excluded: yes(p.Excluded)}
		for _, r := range p.Roles {
			s.Roles = append(s.Roles, r.Role)
			s.Bytes += whole(r.StoredBytes)
		}
		v.Servers = append(v.Servers, s)
	}
	v.Coordinator = slices.ContainsFunc(coordinatorsOf(f.Cluster), func(c Coordinator) bool { return c.Group == string(id) })
	for _, e := range Exclusions(f).Exclusions {
		if e.Group == string(id) {
			v.Exclusion = e
		}
	}
	v.ReplacedAt, _ = foundationdb.ReplacedAt(f.Cluster, g)
	judge := func(name fdb.Gate, what string) {
		verdict := f.Gate(name)
		v.Gates = append(v.Gates, Gate{Name: string(name), For: what, Open: verdict.Open, Reason: verdict.Reason, Message: verdict.Message})
	}
	if g.Marked() && !g.ExclusionSkipped {
		if g.ExclusionTimestamp == nil {
			what := "to exclude it"
			if v.Exclusion.Excluded {
				what = "to prove that it is safe to delete"
			}
			judge(fdb.GateExclude, what)
		}
		tolerance := fdb.Verdict{Reason: fdb.DatabaseSilent, Message: v.Silence}
		if f.Status != nil {
			tolerance = fdb.FullFaultTolerance(f.Status)
		}
		v.Gates = append(v.Gates, Gate{Name: "FullFaultTolerance", For: "to delete its pod", Open: tolerance.Open, Reason: tolerance.Reason, Message: tolerance.Message})
		judge(fdb.GateInclude, "to forget it")
	}
	if v.Coordinator && g.Marked() {
		judge(fdb.GateCoordinators, "to choose another coordinator")
	}
	if g.Has(v1beta2.IncorrectCommandLine) {
		judge(fdb.GateBounce, "to restart its servers")
	}
	return v, nil
}

// Versions are those of a cluster.
type Versions struct {
	Cluster string         `json:"cluster"`
	Version string         `json:"version"`
	Running string         `json:"running,omitempty"`
	Servers map[string]int `json:"servers,omitempty"` // how many report each version
	Images  map[string]int `json:"images,omitempty"`  // of main containers of pods
}

// VersionsOf are the versions of a cluster.
func VersionsOf(f Facts) Versions {
	v := Versions{Cluster: f.Cluster.Namespace + "/" + f.Cluster.Name, Version: f.Cluster.Spec.Version, Running: f.Cluster.Status.RunningVersion}
	if f.Status != nil {
		v.Servers = map[string]int{}
		for _, p := range f.Status.Cluster.Processes {
			v.Servers[cmp.Or(p.Version, "unknown")]++
		}
	}
	for _, pod := range f.Pods {
		for _, c := range pod.Spec.Containers {
			if c.Name == foundationdb.MainContainer {
				if v.Images == nil {
					v.Images = map[string]int{}
				}
				v.Images[c.Image]++
			}
		}
	}
	return v
}

// VersionTable is the table of the versions of clusters.
func VersionTable(all []Versions) view.Table {
	return view.TableOf(all, []view.Column[Versions]{
		{Head: "CLUSTER", Cell: func(v Versions) string { return v.Cluster }},
		{Head: "VERSION", Cell: func(v Versions) string { return v.Version }},
		{Head: "RUNNING", Cell: func(v Versions) string { return cmp.Or(v.Running, fdbview.None) }},
		{Head: "IMAGES", Cell: func(v Versions) string { return cmp.Or(counts(v.Images), fdbview.None) }},
		{Head: "SERVERS", Wide: true, Cell: func(v Versions) string { return cmp.Or(counts(v.Servers), fdbview.None) }},
	})
}

func counts(m map[string]int) string {
	var parts []string
	for name, n := range m {
		parts = append(parts, fmt.Sprintf("%s x%d", name, n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
