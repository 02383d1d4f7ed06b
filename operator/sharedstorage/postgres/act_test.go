package postgres

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/lease"
)

// readOnlyGrants is a grant record that can be read but not written, unless it is writable.
type readOnlyGrants struct {
	lease.Grant
	renewals int
	writable bool
}

func (f *readOnlyGrants) Read(context.Context) (lease.Grant, error) { return f.Grant, nil }

func (f *readOnlyGrants) Renew(context.Context, lease.Renewal) (lease.Grant, error) {
	if f.writable {
		return f.Grant, nil
	}
	f.renewals++
	return lease.Grant{}, errors.New("leases.coordination.k8s.io is forbidden")
}

// # finding 28: an agent whose RoleBinding is deleted at the wrong moment cannot write the grant
// record. That is not a failure of its engine, for which a person would be needed: it tries again.
func TestFinding28ARightThatIsAwayForAMoment(t *testing.T) {
	dir := t.TempDir()
	for _, folder := range []string{filepath.Dir(dir), dir} { // the user who runs PostgreSQL for root must enter it
		if err := os.Chmod(folder, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"token", "password"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("0123456789abcdef0123456789abcdef"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	record := &readOnlyGrants{Grant: lease.Grant{Writer: "a", Epoch: 3}}
	a, err := NewAgent(dir, AgentOptions{Grants: record, Config: Config{
		Cluster: port.Ref{Namespace: "default", Name: "c", Instance: "a"}, Host: "127.0.0.1", Listen: "127.0.0.1:0", Port: 5432, Binaries: dir,
		TokenFile: filepath.Join(dir, "token"), PasswordFile: filepath.Join(dir, "password"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	record.writable = true // the engine was stopped, and its lease still runs
	if err := a.lease.Acquire(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	record.writable = false
	for range 2 {
		if a.pass(t.Context()) {
			t.Error("it goes on at once")
		}
	}
	if _, on := a.lease.Writing(); !on || record.renewals != 2 || a.live.fault != nil {
		t.Errorf("after the stop: the lease is kept: %t, %d tries to give it back, fault %v", on, record.renewals, a.live.fault)
	}
	if err := a.openWriter(t.Context(), facts{grant: record.Grant}); err != nil || fault.Of(a.live.fault) != port.WriterUnhealthy {
		t.Errorf("at the start: %v, fault %v", err, a.live.fault)
	}
}

// # finding 28: the data of a reader are copied from a writer that may be gone for a moment, or
// may have moved. Only a rejection by the engine itself is a failed start.
func TestFinding28AWriterThatIsAwayForAMoment(t *testing.T) {
	for _, c := range []struct {
		says string // empty: no engine listens
		want *fault.Kind
	}{{"", port.WriterUnhealthy}, {"57P03", port.WriterUnhealthy}, {wrongPassword, fault.Unknown}} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at := Upstream{Name: "a", Host: "127.0.0.1", Port: int32(listener.Addr().(*net.TCPAddr).Port)}
		served := make(chan struct{})
		if c.says == "" {
			listener.Close()
			close(served)
		} else {
			go func() { defer close(served); refuse(listener, c.says) }()
		}
		_, err = reach(t.Context(), at, "secret", "")
		if got := absent(at, err); err == nil || fault.Of(got) != c.want {
			t.Errorf("%q: %v", c.says, got)
		}
		listener.Close()
		<-served
	}
}

// refuse is an engine that rejects every connection.
func refuse(listener net.Listener, code string) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		engine := pgproto3.NewBackend(conn, conn)
		for {
			asked, err := engine.ReceiveStartupMessage()
			if err != nil {
				break
			}
			if _, ok := asked.(*pgproto3.SSLRequest); ok {
				_, _ = conn.Write([]byte("N"))
				continue
			}
			engine.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: code, Message: "not now"})
			_ = engine.Flush()
			break
		}
		conn.Close()
	}
}
