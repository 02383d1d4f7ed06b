package local

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// A cluster of real engines is hibernated while a client writes to it without pause, three times: no
// process is left, every answered row is there when it wakes, on all instances, and the same instance
// writes at the same epoch.
func TestHibernationUnderWrites(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	ctx, b, objects := served(t, nil)
	cluster := port.Ref{Namespace: blue.Namespace, Name: blue.Name}
	turn := func(hibernated bool, state string) *sharedstorage.Cluster {
		t.Helper()
		spec, err := json.Marshal(map[string]any{"readers": 2, "storage": map[string]any{"size": "1Gi"}, "hibernated": hibernated})
		b.must(err)
		o, err := objects.Apply(ctx, control.Object{Ref: blue, Spec: spec})
		b.must(err)
		var c *sharedstorage.Cluster
		eventually(t, 2*time.Minute, state, func() error {
			now, err := objects.Get(ctx, blue)
			if err == nil {
				c, err = ClusterStore{Objects: objects, Placement: b.Placement}.Of(now)
			}
			if err == nil && (c.Status.State != state || c.Status.ObservedGeneration < o.Generation) {
				err = fmt.Errorf("%s %s: %s", c.Status.State, c.Status.Message, now.Status)
			}
			return err
		})
		return c
	}
	rows := func(c *sharedstorage.Cluster, id string) (n int) {
		t.Helper()
		b.must(session(ctx, b.Placement, cluster.Of(c.Status.Instances[id].Name), func(ctx context.Context, conn *pgx.Conn) error {
			return conn.QueryRow(ctx, "SELECT coalesce(max(n), 0) FROM rows").Scan(&n)
		}))
		return n
	}
	c := turn(false, "Running")
	writer, epoch := c.Status.Storage.Writer, c.Status.Storage.Epoch
	b.must(session(ctx, b.Placement, cluster.Of(writer), func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "CREATE TABLE rows (n int PRIMARY KEY)")
		return err
	}))
	answered := 0
	for round := range 3 {
		ended := make(chan struct{})
		go func() { // until the writer ends its session
			defer close(ended)
			_ = session(ctx, b.Placement, cluster.Of(writer), func(ctx context.Context, conn *pgx.Conn) error {
				for n := answered + 1; ; n++ {
					if _, err := conn.Exec(ctx, "INSERT INTO rows VALUES ($1)", n); err != nil {
						return err
					}
					answered = n
				}
			})
		}()
		turn(true, "Hibernated")
		<-ended
		if answered == 0 {
			t.Fatal("no row was answered")
		}
		all, err := b.ports.Instances.List(ctx, cluster)
		b.must(err)
		for _, i := range all {
			if i.State != port.Suspended {
				t.Errorf("round %d: %s is %s", round, i.Name, i.State)
			}
		}
		for pid, line := range processesIn(b.folder(cluster)) {
			if !strings.Contains(line, "<defunct>") {
				t.Errorf("round %d: process %d is left: %s", round, pid, line)
			}
		}
		c = turn(false, "Running")
		if c.Status.Storage.Writer != writer || c.Status.Storage.Epoch != epoch {
			t.Errorf("round %d: %s wrote at %d, and %s at %d", round, writer, epoch, c.Status.Storage.Writer, c.Status.Storage.Epoch)
		}
		for id := range c.Status.Instances {
			eventually(t, time.Minute, "rows on "+id, func() error {
				if n := rows(c, id); n < answered {
					return fmt.Errorf("round %d: %d of %d answered rows", round, n, answered)
				}
				return nil
			})
		}
		answered = rows(c, c.Status.Writer) // one that was not answered may be there
	}
	t.Logf("%d rows", answered)
}
