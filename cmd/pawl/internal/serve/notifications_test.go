package serve

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/memory"
)

// Of the events of clusters, notifications are told of those that enter Alert, and of recoveries.
func TestClusterEvents(t *testing.T) {
	store := memory.New()
	now := time.Unix(1_800_000_000, 0)
	s := clusterEvents{store}
	_, start, err := s.Events(t.Context(), "now", 1)
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster.Cluster{UUID: "u", Name: "blue", State: cluster.Running}
	move := func(from, to string, why cluster.Reason) *cluster.Event {
		return &cluster.Event{At: now, Type: "cluster", From: from, State: to, Reason: why}
	}
	faulty := cluster.Reason{Code: cluster.ClusterFaulty.Code, Text: "1 node is away", Step: "Check"}
	if err := store.Commit(t.Context(), &cluster.Change{Cluster: c, Events: []*cluster.Event{
		move("Starting", "Running", cluster.Reason{}), move("Running", "Alert", faulty), move("Alert", "Alert", faulty), move("Alert", "Recovering", cluster.Reason{}),
		move("Recovering", "Alert", faulty), move("Alert", "Recovering", cluster.Reason{}), move("Recovering", "Running", cluster.Reason{}), {At: now, Type: "drift"},
	}}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for cursor := start; ; {
		events, next, err := s.Events(t.Context(), cursor, 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			got = append(got, fmt.Sprint(e.Type, " ", e.Code, " ", e.Subject, " ", e.Message))
		}
		if next == cursor {
			break
		}
		cursor = next
	}
	want := "[cluster.alert CLUSTER_FAULTY cluster/default/u blue: 1 node is away cluster.alert CLUSTER_FAULTY cluster/default/u blue: 1 node is away cluster.recovered  cluster/default/u blue]"
	if fmt.Sprint(got) != want {
		t.Errorf("%v", got)
	}
}
