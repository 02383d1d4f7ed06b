package clusters_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/provider/sim"
	"github.com/pawl-dev/pawl/workflow/runstore"
	"github.com/pawl-dev/pawl/workflow/runtype"

	"github.com/pawl-dev/pawl/store/sql"
	"github.com/pawl-dev/pawl/store/sql/clusters"
	"github.com/pawl-dev/pawl/store/sql/pgtest"
)

// gate blocks all calls of one server, as if its process were stopped.
type gate struct {
	mu      sync.Mutex
	at      int // stops at the nth call since it was armed; 0: never
	sent    int
	stopped chan struct{} // closed when it stops
	resume  chan struct{} // closed when it goes on
	armed   bool
}

func (g *gate) arm(at int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at, g.sent, g.armed, g.stopped, g.resume = at, 0, true, make(chan struct{}), make(chan struct{})
}

// pass blocks while the server is stopped. The wrapped call notices a context that has
// ended meanwhile.
func (g *gate) pass() {
	g.mu.Lock()
	if !g.armed {
		g.mu.Unlock()
		return
	}
	if g.sent++; g.sent == g.at {
		close(g.stopped)
	}
	stopped, resume := g.sent >= g.at, g.resume
	g.mu.Unlock()
	if stopped {
		<-resume
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.armed {
		g.armed = false
		close(g.resume)
	}
}

type gatedRecords struct {
	*clusters.Store
	g *gate
}

func (b gatedRecords) Commit(ctx context.Context, c *cluster.Change) error {
	b.g.pass()
	err := b.Store.Commit(ctx, c)
	b.g.pass()
	return err
}

func (b gatedRecords) Heartbeats(ctx context.Context, h []cluster.NodeHeartbeat) error {
	b.g.pass()
	return b.Store.Heartbeats(ctx, h)
}

type gatedRuns struct {
	*sql.Postgres
	g *gate
}

func (r gatedRuns) Create(ctx context.Context, run *runtype.Run, events []runtype.Event) (*runtype.Run, error) {
	r.g.pass()
	return r.Postgres.Create(ctx, run, events)
}

func (r gatedRuns) Save(ctx context.Context, s *runstore.Save) error {
	r.g.pass()
	err := r.Postgres.Save(ctx, s)
	r.g.pass()
	return err
}

func (r gatedRuns) Send(ctx context.Context, id string, s runtype.Signal) error {
	r.g.pass()
	return r.Postgres.Send(ctx, id, s)
}

func (r gatedRuns) Claim(ctx context.Context, c runstore.Claim) (runstore.Claimed, error) {
	r.g.pass()
	return r.Postgres.Claim(ctx, c)
}

func (r gatedRuns) Renew(ctx context.Context, worker string, lease time.Duration) error {
	r.g.pass()
	return r.Postgres.Renew(ctx, worker, lease)
}

func (r gatedRuns) ReleaseRun(ctx context.Context, worker string, run *runtype.Run, next time.Time) error {
	r.g.pass()
	return r.Postgres.ReleaseRun(ctx, worker, run, next)
}

type gatedLocks struct {
	lock.Backend
	g *gate
}

func (l gatedLocks) Transact(ctx context.Context, name string, change func(time.Time, []byte) ([]byte, bool)) error {
	l.g.pass()
	return l.Backend.Transact(ctx, name, change)
}

type gatedCloud struct {
	*sim.Client
	g *gate
}

func (c gatedCloud) Create(ctx context.Context, w cluster.DesiredResource) (cluster.Call, error) {
	c.g.pass()
	call, err := c.Client.Create(ctx, w)
	c.g.pass()
	return call, err
}

func (c gatedCloud) Act(ctx context.Context, r cluster.Ref, a cluster.Action) (cluster.Call, error) {
	c.g.pass()
	call, err := c.Client.Act(ctx, r, a)
	c.g.pass()
	return call, err
}

func (c gatedCloud) Get(ctx context.Context, r cluster.Ref) (cluster.Resource, error) {
	c.g.pass()
	return c.Client.Get(ctx, r)
}

// TestTwoServersOnPostgreSQL: two servers share one PostgreSQL. Their clocks differ by a
// second. One of them is stopped in the middle of a create and of each scale, for longer
// than its lease, and then continues with its blocked calls. Connections are cut while
// both save. Each resource is created once, is recorded, and is deleted in the end.
func TestTwoServersOnPostgreSQL(t *testing.T) {
	pg := pgtest.Start(t, pgtest.Options{NoSync: true})
	for _, at := range []int{5, 14, 23, 37} {
		t.Run(fmt.Sprintf("stopped at %d", at), func(t *testing.T) {
			t.Parallel()
			dsn := pg.Database(t)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			var mu sync.Mutex
			var fixtures []*fixture
			o := cloudOptions()
			o.Home = func(_ context.Context, token string, h cluster.Heartbeat) (cluster.HeartbeatAnswer, error) {
				mu.Lock()
				s := fixtures[len(fixtures)-1]
				mu.Unlock()
				return s.service.Heartbeat(ctx, token, h)
			}
			cloud, err := sim.New(o)
			if err != nil {
				t.Fatal(err)
			}
			var records cluster.Store
			g := &gate{}
			for i, name := range []string{"first", "second"} {
				store := sharedPostgres(t, dsn)
				records = store.Clusters()
				o := fixtureOptions{name: name, records: records, runs: store, locks: store.Locks(), provider: cloud.As(testInstallation)}
				if i == 0 {
					o.records, o.runs, o.locks, o.provider = gatedRecords{store.Clusters(), g}, gatedRuns{store, g}, gatedLocks{store.Locks(), g}, gatedCloud{cloud.As(testInstallation), g}
					o.now = func() time.Time { return time.Now().UTC().Add(-time.Second) }
				}
				s, err := newFixture(o)
				if err != nil {
					t.Fatal(err)
				}
				mu.Lock()
				fixtures = append(fixtures, s)
				mu.Unlock()
			}
			served := make(chan struct{})
			go func() { defer close(served); _ = cloud.Serve(ctx) }()
			defer func() {
				g.open()
				cancel()
				<-served
				for _, s := range fixtures {
					s.stop()
				}
			}()
			uuid := ""
			sizes := []int{4, 7, 2}
			for i, size := range sizes {
				g.arm(at)
				trouble := make(chan struct{})
				go func() {
					defer close(trouble)
					select {
					case <-g.stopped:
						for range 3 { // two renewals apart: the other server keeps its lease on a slow machine too
							time.Sleep(400 * time.Millisecond)
							pg.Terminate(t, dsn)
						}
						time.Sleep(1200 * time.Millisecond) // four leases in total
					case <-time.After(10 * time.Second):
					}
					g.open()
				}()
				id := fmt.Sprintf("order-%d", i)
				job, err := waitForJob(ctx, records, id, func() (err error) {
					if i == 0 {
						_, _, err = fixtures[1].service.Create(ctx, testCaller, api.CreateRequest{Name: "blue", Zone: "zone-1", Offering: "small", Size: size, JobID: id})
					} else {
						_, _, err = fixtures[1].service.Change(ctx, testCaller, uuid, api.ChangeRequest{Kind: cluster.RequestScale, Size: size, JobID: id})
					}
					return err
				})
				<-trouble
				if err != nil {
					t.Fatal(err)
				}
				if uuid = job.Cluster; job.Status != cluster.JobDone {
					t.Fatalf("%s: %s %s", id, job.Code, job.Text)
				}
				checkRunning(t, records, cloud, uuid, size)
			}
			created := map[string]int{}
			for _, d := range cloud.Mutations() {
				if d.Op == sim.Made {
					if created[d.Name]++; created[d.Name] > 1 {
						t.Errorf("%s %s was created twice", d.Kind, d.Name)
					}
				}
			}
			_, err = waitForJob(ctx, records, "delete", func() error {
				_, _, err := fixtures[1].service.Change(ctx, testCaller, uuid, api.ChangeRequest{Kind: cluster.RequestDelete, JobID: "delete"})
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if left := cloud.All(); len(left) > 0 {
				t.Errorf("%d resources are left, the first is %s %s", len(left), left[0].Kind, left[0].Name)
			}
		})
	}
}

// sharedPostgres opens a store on a database that other stores use too.
func sharedPostgres(t *testing.T, dsn string) *sql.Postgres {
	t.Helper()
	store, err := sql.Open(t.Context(), sql.Options{DSN: dsn, MasterKey: masterKey})
	if err != nil {
		t.Fatal(err)
	}
	p, ok := store.(*sql.Postgres)
	if !ok {
		t.Fatal(errors.New("not PostgreSQL"))
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}
