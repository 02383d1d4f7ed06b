package sqltest

import (
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/cluster"
)

// When is the time of the records.
var When = time.Date(2030, 5, 1, 12, 0, 0, 1, time.UTC)

// NewRecord returns a change that creates a cluster with three nodes.
func NewRecord(i int) *cluster.Change {
	uuid := fmt.Sprintf("c%05d", i)
	change := &cluster.Change{
		Cluster: &cluster.Cluster{UUID: uuid, Name: "cluster " + uuid, Description: "a<b & c", Owner: cluster.Owner{AccountID: fmt.Sprint("account", i%10), DomainID: "domain"},
			Provider: "sim", Zone: cluster.Entity{ID: "z1", Name: "zone one"}, State: cluster.Running, Desired: cluster.WantRunning, NodeCount: 9, ControlCount: 1,
			Created: When.Add(time.Duration(i) * time.Second), GC: true, Recovery: cluster.Recovery{}, CIDRs: []string{"10.0.0.0/8", "192.168.0.0/16"}},
		Details: &cluster.Details{Username: "admin", Password: PlantedSecret, RegistryPassword: PlantedSecret, ConfigData: PlantedSecret, CAKey: PlantedSecret, Credentials: map[string]string{"n1": "hash"}},
		Jobs:    []*cluster.Job{{ID: "job-" + uuid, Command: "createContainerCluster", Password: PlantedSecret, Created: When, Status: cluster.JobDone, Completed: When}},
		Events:  []*cluster.Event{{At: When, Type: "cluster", Data: []byte(`{"a": "<1>"}`)}},
	}
	for n := range 3 {
		key := fmt.Sprint("vm", n)
		change.Nodes = append(change.Nodes, &cluster.Node{Name: fmt.Sprint(uuid, "-", n), Key: key, Role: cluster.Worker, Ordinal: n})
		change.Journal = append(change.Journal, &cluster.JournalRow{Kind: cluster.VM, Key: key, Name: fmt.Sprint(uuid, "-", n), Phase: cluster.Present, Origin: cluster.OriginCreated,
			ProviderID: "id", Spec: cluster.Spec{Offering: "o1", UserData: []byte(PlantedSecret)}, IntentAt: When})
	}
	return change
}

// PlantedSecret is a secret that must not appear anywhere.
const PlantedSecret = "planted-secret"
