package serve

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/memory"
	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
	"github.com/pawl-dev/pawl/store/sql/secrets"
	"github.com/pawl-dev/pawl/store/sql/sqltest"
)

// Of the events of clusters, notifications are told of those that enter Alert, and of recoveries.
func TestClusterEvents(t *testing.T) {
	key := bytes.Repeat([]byte{7}, secrets.KeySize)
	for name, open := range map[string]func(t *testing.T) cluster.Store{
		"memory": func(*testing.T) cluster.Store { return memory.New() },
		"SQLite": func(t *testing.T) cluster.Store {
			return sqltest.OpenSQLite(t, sql.Options{Path: filepath.Join(t.TempDir(), "pawl.db"), MasterKey: key}).Clusters()
		},
		"PostgreSQL": func(t *testing.T) cluster.Store {
			s, err := sql.Open(t.Context(), sql.Options{DSN: pgtest.Start(t, pgtest.Options{NoSync: true}).Database(t), MasterKey: key})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			return s.Clusters()
		},
	} {
		t.Run(name, func(t *testing.T) { testClusterEvents(t, open(t)) })
	}
}

func testClusterEvents(t *testing.T, store cluster.Store) {
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
