package sharedstorage_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/operator/sharedstorage/kube"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port/porttest"
	"github.com/pawl-dev/pawl/test/controlplane"
)

// Pods of a real control plane sit the exam of the ports.
func TestExam(t *testing.T) {
	plane := suite.Plane(t)
	scheme, err := kube.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	direct, err := client.New(plane.Config(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	images, err := controlplane.Images("")
	if err != nil {
		t.Fatal(err)
	}
	open := func(t *testing.T) *kube.Site {
		t.Helper()
		site, err := kube.NewSite(kube.Options{Client: direct, Image: "pawl:dev", User: max(images["postgres:15"].User, int64(min(os.Getuid(), 1))), Lease: 3 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return site
	}
	porttest.Run(t, func(t *testing.T) porttest.Rig {
		fresh(t, plane, "exam")
		site := open(t)
		session := func(id port.Ref, do func(context.Context, *pgx.Conn) error) error {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			place, err := site.Instances().Place(ctx, id)
			if err != nil {
				return err
			}
			password, err := site.Password(ctx, id.Cluster())
			if err != nil {
				return err
			}
			config, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=%d user=postgres password=%s dbname=postgres sslmode=disable", place.Engine.Host, place.Engine.Port, password))
			if err != nil {
				return err
			}
			conn, err := pgx.ConnectConfig(ctx, config)
			if err != nil {
				return err
			}
			defer conn.Close(ctx)
			return do(ctx, conn)
		}
		return porttest.Rig{
			Ports: site.Ports(), Now: time.Now, Limit: 3 * time.Minute,
			Await: func(t *testing.T, limit time.Duration, what string, holds func() error) {
				t.Helper()
				err := holds()
				for end := time.Now().Add(limit); err != nil && time.Now().Before(end); err = holds() {
					time.Sleep(100 * time.Millisecond)
				}
				if err != nil {
					t.Fatalf("%s, not within %s: %v", what, limit, err)
				}
			},
			Kill: func(t *testing.T, id port.Ref) {
				t.Helper()
				err := direct.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: id.Namespace, Name: kube.PodName(id)}}, client.GracePeriodSeconds(0))
				if err != nil {
					t.Fatal(err)
				}
			},
			Break: func(t *testing.T, node string) {
				t.Helper()
				t.Cleanup(func() { _ = plane.Kubelet.StartNode(context.Background(), node) }) // it may be mended
				if err := plane.Kubelet.StopNode(node); err != nil {
					t.Fatal(err)
				}
			},
			Mend: func(t *testing.T, node string) {
				t.Helper()
				if err := plane.Kubelet.StartNode(t.Context(), node); err != nil {
					t.Fatal(err)
				}
			},
			Again: func(t *testing.T) port.Ports { return open(t).Ports() },
			Insert: func(id port.Ref, row string) error {
				return session(id, func(ctx context.Context, c *pgx.Conn) error {
					if _, err := c.Exec(ctx, "CREATE TABLE IF NOT EXISTS exam (row text)"); err != nil {
						return err
					}
					_, err := c.Exec(ctx, "INSERT INTO exam VALUES ($1)", row)
					return err
				})
			},
			Rows: func(id port.Ref) (rows []string, err error) {
				err = session(id, func(ctx context.Context, c *pgx.Conn) error {
					found, err := c.Query(ctx, "SELECT row FROM exam ORDER BY row")
					if err != nil {
						return err
					}
					rows, err = pgx.CollectRows(found, pgx.RowTo[string])
					return err
				})
				return rows, err
			},
			Reload: map[string]string{"work_mem": "8MB"}, Restart: map[string]string{"max_connections": "50"}, Wrong: map[string]string{"work_mem": "much"},
		}
	})
}

// fresh makes a namespace that the exam names, and takes it away after the question.
func fresh(t *testing.T, plane *controlplane.Plane, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		_, err := plane.Client().CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err == nil {
			break
		}
		if !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := plane.DeleteNamespace(ctx, name); err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
