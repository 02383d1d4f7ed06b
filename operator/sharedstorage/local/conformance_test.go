package local

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port/porttest"
)

// The conformance suite of the ports, with real processes.
func TestConformance(t *testing.T) {
	porttest.Run(t, func(t *testing.T) porttest.Fixture {
		s := open(t, Options{Lease: 3 * time.Second})
		return porttest.Fixture{
			Ports: s.Ports(), Now: time.Now,
			Await: func(t *testing.T, limit time.Duration, what string, holds func() error) {
				t.Helper()
				eventually(t, limit, what, holds)
			},
			Kill: func(t *testing.T, id port.Ref) {
				t.Helper()
				if err := s.locked(func() error { s.crash(s.folder(id, "instances", id.Instance)); return nil }); err != nil {
					t.Fatal(err)
				}
			},
			Break: func(t *testing.T, node string) {
				t.Helper()
				if err := s.BreakNode(node); err != nil {
					t.Fatal(err)
				}
			},
			Repair: func(t *testing.T, node string) {
				t.Helper()
				if err := s.RepairNode(node); err != nil {
					t.Fatal(err)
				}
			},
			Reopen: func(t *testing.T) port.Ports {
				t.Helper()
				again, err := Open(s.o)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { again.locked(func() error { return nil }) })
				return again.Ports()
			},
			Insert: func(id port.Ref, row string) error {
				return session(t.Context(), s, id, func(ctx context.Context, c *pgx.Conn) error {
					_, err := c.Exec(ctx, "INSERT INTO rows_of_suite VALUES ($1)", row)
					if err == nil {
						return nil
					}
					_, err = c.Exec(ctx, "CREATE TABLE rows_of_suite (row text); INSERT INTO rows_of_suite VALUES ("+quote(row)+")", pgx.QueryExecModeSimpleProtocol)
					return err
				})
			},
			Rows: func(id port.Ref) (rows []string, err error) {
				err = session(t.Context(), s, id, func(ctx context.Context, c *pgx.Conn) error {
					found, err := c.Query(ctx, "SELECT row FROM rows_of_suite ORDER BY row")
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

func quote(text string) string { return "'" + text + "'" }

// session opens a session in an engine, as a client of the database does.
func session(ctx context.Context, s *Placement, id port.Ref, do func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	p, err := s.Instances().Locate(ctx, id)
	if err != nil {
		return err
	}
	password, err := s.Password(id)
	if err != nil {
		return err
	}
	cfg, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=%d user=postgres password=%s dbname=postgres sslmode=disable connect_timeout=5", p.Engine.Host, p.Engine.Port, password))
	if err != nil {
		return err
	}
	c, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	return do(ctx, c)
}
