package sharedstorage_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/sharedstorage/kube"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port/porttest"
	"github.com/pawl-dev/pawl/test/await"
	"github.com/pawl-dev/pawl/test/controlplane"
)

// The conformance suite of the ports on pods of a real control plane, several tests at a
// time, each on its own nodes.
func TestConformance(t *testing.T) {
	t.Parallel()
	plane := suite.Plane(t)
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	direct, err := client.New(plane.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	live, cached := newManager(t, plane, scheme)
	porttest.Run(t, func(t *testing.T) porttest.Fixture {
		t.Parallel()
		namespace, label, nodes := plane.Apart(t)
		d := &suiteFixture{t: t, live: live, cached: cached, nodes: label}
		d.store = d.openStore()
		return porttest.Fixture{
			Ports: d.ports(), Cluster: port.Ref{Namespace: namespace, Name: "c", UID: "1"}, Now: time.Now, Limit: 6 * time.Minute,
			Await: func(t *testing.T, limit time.Duration, what string, holds func() error) {
				t.Helper()
				await.Until(t, limit, what, func(context.Context) error { return holds() })
			},
			Kill: func(t *testing.T, id port.Ref) {
				t.Helper()
				err := direct.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: id.Namespace, Name: kube.PodName(id)}}, client.GracePeriodSeconds(0))
				if err != nil {
					t.Fatal(err)
				}
				// The kubelet hears of the deletion later, and the agent answers until then.
				await.Until(t, time.Minute, "the end of the pod's processes", func(context.Context) error {
					if running := nodes.PIDs(id.Namespace, kube.PodName(id)); len(running) > 0 {
						return fmt.Errorf("%v run", running)
					}
					return nil
				})
			},
			Break: func(t *testing.T, node string) {
				t.Helper()
				if err := nodes.StopNode(node); err != nil {
					t.Fatal(err)
				}
			},
			Repair: func(t *testing.T, node string) {
				t.Helper()
				if err := nodes.StartNode(t.Context(), node); err != nil {
					t.Fatal(err)
				}
			},
			Reopen: func(*testing.T) port.Ports { d.store = d.openStore(); return d.ports() },
			Insert: d.insert, Rows: d.rows,
			Reload: map[string]string{"work_mem": "8MB"}, Restart: map[string]string{"max_connections": "50"}, Wrong: map[string]string{"work_mem": "much"},
		}
	})
}

// newManager returns the clients of a manager that reads and writes as the operator does, with caches and
// the operator's rights.
func newManager(t *testing.T, plane *controlplane.Plane, scheme *runtime.Scheme) (live client.Reader, cached client.Client) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig(t, plane))
	if err != nil {
		t.Fatal(err)
	}
	m, err := controller.NewManager(config, controller.Options{Scheme: scheme, NoLeaderElection: true})
	if err != nil {
		t.Fatal(err)
	}
	cache, err := kube.NewCache(m)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background()) // subtests outlive this test function
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return m.Live(), cache.Client()
}

// readYourWrites returns a client that waits until its caches contain its writes: the
// suite reads at once, and the caches are late.
func readYourWrites(c client.Client) client.Client { return &readYourWritesClient{c} }

type readYourWritesClient struct{ client.Client }

func (s *readYourWritesClient) Create(ctx context.Context, obj client.Object, o ...client.CreateOption) error {
	return s.after(ctx, obj, s.Client.Create(ctx, obj, o...))
}

func (s *readYourWritesClient) Patch(ctx context.Context, obj client.Object, patch client.Patch, o ...client.PatchOption) error {
	return s.after(ctx, obj, s.Client.Patch(ctx, obj, patch, o...))
}

func (s *readYourWritesClient) Update(ctx context.Context, obj client.Object, o ...client.UpdateOption) error {
	return s.after(ctx, obj, s.Client.Update(ctx, obj, o...))
}

func (s *readYourWritesClient) Delete(ctx context.Context, obj client.Object, o ...client.DeleteOption) error {
	err := s.Client.Delete(ctx, obj, o...)
	if err != nil {
		return err
	}
	s.until(ctx, obj, func(now client.Object, err error) bool { return err != nil || !now.GetDeletionTimestamp().IsZero() })
	return nil
}

func (s *readYourWritesClient) after(ctx context.Context, obj client.Object, err error) error {
	if err == nil {
		version := number(obj)
		s.until(ctx, obj, func(now client.Object, err error) bool { return err == nil && number(now) >= version })
	}
	return err
}

func number(obj client.Object) uint64 {
	n, _ := strconv.ParseUint(obj.GetResourceVersion(), 10, 64) // all versions are from one etcd
	return n
}

// until polls for a while: other writers may change the object too.
func (s *readYourWritesClient) until(ctx context.Context, obj client.Object, holds func(client.Object, error) bool) {
	var now client.Object
	switch obj.(type) {
	case *corev1.Pod:
		now = &corev1.Pod{}
	case *corev1.PersistentVolumeClaim:
		now = &corev1.PersistentVolumeClaim{}
	default:
		return
	}
	for range 200 {
		if err := s.Get(ctx, client.ObjectKeyFromObject(obj), now); holds(now, err) || ctx.Err() != nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// suiteFixture is the fixture of one test of the suite.
type suiteFixture struct {
	t      *testing.T
	live   client.Reader
	cached client.Client
	store  *kube.Placement
	nodes  string
}

// openStore creates a ClusterStore as an operator does at its start. Its leases outlast a
// pause of the machine for seconds.
func (d *suiteFixture) openStore() *kube.Placement {
	d.t.Helper()
	placement, err := kube.NewPlacement(kube.Options{Client: readYourWrites(d.cached), Live: d.live, Image: "pawl:dev", User: engineUser(d.t), Lease: 6 * time.Second})
	if err != nil {
		d.t.Fatal(err)
	}
	return placement
}

func (d *suiteFixture) ports() port.Ports {
	p := d.store.Ports()
	p.Instances = labelledInstances{p.Instances, d.nodes}
	return p
}

// labelledInstances are instances that can run on the nodes of their test only.
type labelledInstances struct {
	port.Instances
	label string
}

func (o labelledInstances) Nodes(ctx context.Context, c port.Ref) ([]port.Node, error) {
	nodes, err := o.Instances.Nodes(ctx, c)
	return slices.DeleteFunc(nodes, func(n port.Node) bool { return n.Labels[controlplane.ApartLabel] != o.label }), err
}

// insert commits a row. If the engine restarts meanwhile, it tries again, and inserts the
// row once.
func (d *suiteFixture) insert(id port.Ref, row string) (err error) {
	for range 100 {
		err = d.session(id, func(ctx context.Context, c *pgx.Conn) error {
			if _, err := c.Exec(ctx, "CREATE TABLE IF NOT EXISTS rows_of_suite (row text PRIMARY KEY)"); err != nil {
				return err
			}
			_, err := c.Exec(ctx, "INSERT INTO rows_of_suite VALUES ($1) ON CONFLICT DO NOTHING", row)
			return err
		})
		if refused := new(pgconn.PgError); err == nil || errors.As(err, &refused) && refused.Code == "25006" { // read only
			return err
		}
		time.Sleep(300 * time.Millisecond)
	}
	return err
}

func (d *suiteFixture) rows(id port.Ref) (rows []string, err error) {
	err = d.session(id, func(ctx context.Context, c *pgx.Conn) error {
		found, err := c.Query(ctx, "SELECT row FROM rows_of_suite ORDER BY row")
		if err != nil {
			return err
		}
		rows, err = pgx.CollectRows(found, pgx.RowTo[string])
		return err
	})
	return rows, err
}

func (d *suiteFixture) session(id port.Ref, do func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(d.t.Context(), 30*time.Second)
	defer cancel()
	place, err := d.store.Instances().Locate(ctx, id)
	if err != nil {
		return err
	}
	password, err := d.store.Password(ctx, id.Cluster())
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, connString(password, v1alpha1.InstanceStatus{Address: place.Engine.Host, Port: place.Engine.Port}))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return do(ctx, conn)
}
