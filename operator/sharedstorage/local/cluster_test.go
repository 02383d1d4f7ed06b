package local

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// fixture is a cluster of real processes; the test acts as its operator.
type fixture struct {
	*Placement
	t      *testing.T
	ports  port.Ports
	writer string
	epoch  int64
}

func newFixture(t *testing.T, o Options) *fixture {
	s := open(t, o)
	return &fixture{Placement: s, t: t, ports: s.Ports()}
}

func (b *fixture) must(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *fixture) ctx() context.Context {
	ctx, cancel := context.WithTimeout(b.t.Context(), 2*time.Minute)
	b.t.Cleanup(cancel)
	return ctx
}

func (b *fixture) instance(name string, kind port.Type) { b.t.Helper(); b.up(c1, name, kind) }

func (b *fixture) up(c port.Ref, name string, kind port.Type) {
	b.t.Helper()
	want := port.Instance{Name: name, ID: name, Type: kind}
	eventually(b.t, 30*time.Second, "instance "+name, func() error {
		got, err := b.ports.Instances.Ensure(b.ctx(), c, want)
		if err == nil && got.State != port.Up {
			err = fmt.Errorf("%s: %s", got.State, got.Message)
		}
		return err
	})
}

func (b *fixture) status(name string) port.Status {
	b.t.Helper()
	s, err := b.ports.Engine.Status(b.ctx(), c1.Of(name))
	b.must(err)
	return s
}

// until waits for a status of an engine.
func (b *fixture) until(name, what string, holds func(port.Status) bool) port.Status {
	b.t.Helper()
	return b.untilWithin(time.Minute, name, what, holds)
}

func (b *fixture) untilWithin(limit time.Duration, name, what string, holds func(port.Status) bool) port.Status {
	b.t.Helper()
	var s port.Status
	eventually(b.t, limit, name+" "+what, func() (err error) {
		if s, err = b.ports.Engine.Status(b.ctx(), c1.Of(name)); err == nil && !holds(s) {
			err = fmt.Errorf("%+v", s)
		}
		return err
	})
	return s
}

// create creates a writer and readers.
func (b *fixture) create(writer string, readers ...string) {
	b.t.Helper()
	_, err := b.ports.Storage.Ensure(b.ctx(), c1, port.Volume{Size: 1 << 30}, "volume")
	b.must(err)
	b.instance(writer, port.Writer)
	b.must(b.ports.Engine.Install(b.ctx(), c1.Of(writer), port.Source{}, "install"))
	b.epoch++
	b.writer = writer
	b.must(b.ports.Storage.Grant(b.ctx(), c1, writer, b.epoch))
	b.must(b.ports.Engine.Start(b.ctx(), c1.Of(writer)))
	b.until(writer, "writes", func(s port.Status) bool { return s.Ready && s.Role == port.Primary && s.Epoch == b.epoch })
	for _, name := range readers {
		b.instance(name, port.Reader)
		b.must(b.ports.Engine.Install(b.ctx(), c1.Of(name), port.Source{From: writer}, "install"))
	}
	for _, name := range readers {
		b.until(name, "is installed", func(s port.Status) bool { return s.Installed })
		b.must(b.ports.Engine.Start(b.ctx(), c1.Of(name)))
	}
	for _, name := range readers {
		b.until(name, "streams", func(s port.Status) bool { return s.Ready && s.Streaming && s.Upstream == writer })
	}
}

// connect opens a session in an instance.
func (b *fixture) connect(name string) (*pgx.Conn, error) { return b.connectTo(c1, name) }

func (b *fixture) connectTo(cluster port.Ref, name string) (*pgx.Conn, error) {
	p, err := b.Instances().Locate(b.t.Context(), cluster.Of(name))
	if err != nil {
		return nil, err
	}
	password, err := b.Password(cluster)
	if err != nil {
		return nil, err
	}
	cfg, err := pgx.ParseConfig(fmt.Sprintf("host=%s port=%d user=postgres password=%s dbname=postgres sslmode=disable connect_timeout=2", p.Engine.Host, p.Engine.Port, password))
	if err != nil {
		return nil, err
	}
	return pgx.ConnectConfig(b.t.Context(), cfg)
}

func (b *fixture) exec(name, sql string) {
	b.t.Helper()
	c, err := b.connect(name)
	b.must(err)
	defer c.Close(b.t.Context())
	_, err = c.Exec(b.t.Context(), sql)
	b.must(err)
}

func (b *fixture) query(name, sql string) (string, error) { return b.queryOf(c1, name, sql) }

func (b *fixture) queryOf(cluster port.Ref, name, sql string) (string, error) {
	c, err := b.connectTo(cluster, name)
	if err != nil {
		return "", err
	}
	defer c.Close(b.t.Context())
	rows, err := c.Query(b.t.Context(), sql)
	if err != nil {
		return "", err
	}
	values, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return strings.Join(values, ","), err
}

// Rows written to the writer are read on both readers.
func TestRowsAreReadOnBothReaders(t *testing.T) {
	b := newFixture(t, Options{})
	b.create("w", "r1", "r2")
	b.exec("w", "CREATE TABLE rows (n text); INSERT INTO rows VALUES ('one'), ('two')")
	for _, name := range []string{"r1", "r2"} {
		eventually(t, 30*time.Second, "rows on "+name, func() error {
			got, err := b.query(name, "SELECT n FROM rows ORDER BY n")
			if err == nil && got != "one,two" {
				err = errors.New(got)
			}
			return err
		})
		if _, err := b.query(name, "INSERT INTO rows VALUES ('three') RETURNING n"); err == nil || !strings.Contains(err.Error(), "read-only") {
			t.Errorf("%s took a row: %v", name, err)
		}
	}
}
