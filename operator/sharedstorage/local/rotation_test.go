package local

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
)

// Token and password of a running cluster are replaced: by other values, and by deletion. Agents
// and manager stay reachable, there is no failover, the new password works and the old one does
// not, and a reader that reconnects streams.
func TestFinding28SecretsAreRotated(t *testing.T) {
	b := newFixture(t, Options{})
	b.create("a", "b")
	eventually(t, time.Minute, "the manager is made", func() error {
		top, err := b.ports.Manager.Ensure(b.ctx(), c1, port.ManagerSpec{Present: true, HA: true, Durability: "strict", Members: []port.Member{{Name: "a", ID: "a", Node: "node-1"}, {Name: "b", ID: "b", Node: "node-2"}}})
		if err == nil && !top.Ready {
			err = fmt.Errorf("%+v", top)
		}
		return err
	})
	manages := func() {
		t.Helper()
		eventually(t, time.Minute, "the manager knows its cluster", func() error {
			top, err := b.ports.Manager.Topology(b.ctx(), c1)
			if err == nil && (!top.Ready || top.Writer != "a" || top.Code != "" || len(top.Sync) != 1) {
				err = fmt.Errorf("%+v", top)
			}
			return err
		})
	}
	manages()
	old, err := b.Password(c1)
	b.must(err)
	place, err := b.Instances().Locate(b.ctx(), c1.Of("a"))
	b.must(err)
	in := func(password string) error {
		ctx, cancel := context.WithTimeout(b.ctx(), 10*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, fmt.Sprintf("host=%s port=%d user=postgres password=%s dbname=postgres sslmode=disable", place.Engine.Host, place.Engine.Port, password))
		if err == nil {
			err = conn.Close(ctx)
		}
		return err
	}
	b.must(in(old))
	rotate := map[string]func(file string) error{
		"replaced": func(file string) error { return host.WriteFile(file, []byte("fresh-and-of-one-line\n")) },
		"deleted":  os.Remove,
	}
	for _, how := range []string{"replaced", "deleted"} {
		for _, name := range []string{"token", "password"} {
			b.must(rotate[how](b.folder(c1, "secret", name)))
		}
		eventually(t, time.Minute, "the new password is good after it was "+how, func() error {
			if _, err := b.Instances().Locate(b.ctx(), c1.Of("a")); err != nil {
				return err
			}
			password, err := b.Password(c1)
			if err == nil && password == old {
				err = fmt.Errorf("it is the old one")
			}
			if err == nil {
				err = in(password)
			}
			return err
		})
		if err := in(old); err == nil || !strings.Contains(err.Error(), "28P01") {
			t.Errorf("the old password after the new one was %s: %v", how, err)
		}
		manages()
		b.until("a", "is asked with the new token", func(s port.Status) bool { return s.Ready && s.Role == port.Primary && s.Epoch == b.epoch })
		b.must(b.ports.Engine.Stop(b.ctx(), c1.Of("b"), port.Fast))
		b.until("b", "stops", func(s port.Status) bool { return !s.Running })
		b.must(b.ports.Engine.Start(b.ctx(), c1.Of("b")))
		b.until("b", "streams with the new password", func(s port.Status) bool { return s.Streaming })
		old, err = b.Password(c1)
		b.must(err)
	}
}
