package report

import (
	"strings"

	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
)

// Configure says by which stages a cluster reaches its configuration, and what blocks the next one.
func Configure(f Facts) Configuration {
	wanted := desiredConfiguration(f.Cluster)
	v := Configuration{Cluster: f.Cluster.Namespace + "/" + f.Cluster.Name, Wanted: wanted.Text(), Stages: []string{}}
	live, known := liveConfiguration(f)
	if !known {
		v.Reason, v.Message = fdb.StatusIncomplete, "the configuration of the database is not known"
		return v
	}
	v.Live = live.Text()
	stages := fdb.Stages(live, wanted)
	for _, stage := range stages {
		v.Stages = append(v.Stages, stage.Text())
	}
	switch {
	case len(stages) == 0:
	case f.Status == nil:
		v.Reason, v.Message = fdb.DatabaseSilent, "whether the next stage may begin was not judged: the database was not read"
		if f.Silence != "" {
			v.Message += ": " + f.Silence
		}
	default:
		if r := fdb.Refuses(live, stages[0], fdb.PlacementOf(f.Status)); r.Reason != "" {
			v.Reason, v.Message = string(r.Reason), r.Message
		} else if gate := f.Gate(fdb.GateConfigure); !gate.Open {
			v.Reason, v.Message = gate.Reason, gate.Message
		}
	}
	return v
}

func liveConfiguration(f Facts) (fdb.Configuration, bool) {
	if f.Status != nil && f.Status.Cluster.Configuration != nil {
		return *f.Status.Cluster.Configuration, true
	}
	if d := f.Cluster.Status.DatabaseConfiguration; d.RedundancyMode != "" {
		return foundationdb.ConfigurationOf(d), true
	}
	return fdb.Configuration{}, false
}

// FailOver returns the regions of a cluster with another primary data center: its priority is the highest, that of
// the other main ones stays in its order below it. It fails with fdb.WordInvalid.
func FailOver(c *v1beta2.FoundationDBCluster, dc string) ([]v1beta2.Region, error) {
	regions := []v1beta2.Region{}
	var mains []string
	found := false
	for _, r := range c.Spec.DatabaseConfiguration.Regions {
		regions = append(regions, *r.DeepCopy())
		for _, d := range r.Datacenters {
			if d.Satellite == 0 {
				mains = append(mains, d.ID)
				found = found || d.ID == dc
			}
		}
	}
	if !found {
		return nil, fdb.WordInvalid.Errorf("%s is no main data center of a region; these are: %s", dc, strings.Join(mains, ", "))
	}
	highest := 0
	for _, r := range regions {
		for _, d := range r.Datacenters {
			if d.Satellite == 0 {
				highest = max(highest, d.Priority)
			}
		}
	}
	for i := range regions {
		for j := range regions[i].Datacenters {
			d := &regions[i].Datacenters[j]
			switch {
			case d.Satellite != 0:
			case d.ID == dc:
				d.Priority = max(highest, 1)
			case d.Priority >= highest:
				d.Priority = max(highest, 1) - 1
			}
		}
	}
	return regions, nil
}
