package lease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
)

// For every order of grants and renewals: no two leases of different writers run at once, the
// epoch never falls, and only the holder of the grant gets a lease.
func TestNeverTwoLeases(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(1_000_000, 0)
		var g Grant
		until := map[string]time.Time{} // by writer: the latest end of its leases, unless it released them
		names := rapid.SampledFrom([]string{"a", "b", "c"})
		t.Repeat(map[string]func(*rapid.T){
			"grant": func(t *rapid.T) {
				writer, epoch := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "writer"), rapid.Int64Range(0, 9).Draw(t, "epoch")
				next, err := g.Granted(writer, epoch)
				switch {
				case err == nil && epoch < g.Epoch:
					t.Fatalf("epoch %d after %d", epoch, g.Epoch)
				case err == nil && epoch == g.Epoch && writer != g.Writer && writer != "":
					t.Fatalf("epoch %d went from %q to %q", epoch, g.Writer, writer)
				case err != nil && next != g:
					t.Fatal("a refusal changed the record")
				}
				g = next
			},
			"renew": func(t *rapid.T) {
				writer, epoch := names.Draw(t, "writer"), rapid.Int64Range(0, 9).Draw(t, "epoch")
				ttl := time.Duration(rapid.Int64Range(1, 10).Draw(t, "ttl")) * time.Second
				next, err := g.Renewed(Renewal{Writer: writer, Epoch: epoch, TTL: ttl}, now)
				if err != nil {
					return
				}
				if g.Writer != writer || g.Epoch != epoch {
					t.Fatalf("%s of epoch %d got a lease under %+v", writer, epoch, g)
				}
				for other, end := range until {
					if other != writer && now.Before(end) {
						t.Fatalf("%s got a lease while that of %s runs", writer, other)
					}
				}
				g, until[writer] = next, now.Add(ttl)
			},
			"end": func(t *rapid.T) {
				writer := names.Draw(t, "writer")
				next, err := g.Renewed(Renewal{Writer: writer, Epoch: 9}, now)
				if err != nil {
					t.Fatal(err)
				}
				if g.Lease.Holder == writer {
					delete(until, writer)
				}
				g = next
			},
			"wait": func(t *rapid.T) { now = now.Add(time.Duration(rapid.Int64Range(0, 12).Draw(t, "s")) * time.Second) },
		})
	})
}

// The record in a folder is guarded: of many concurrent grants of a new epoch, one succeeds.
func TestOneOfManyGetsTheGrant(t *testing.T) {
	f := GrantFile{Dir: t.TempDir()}
	var got sync.Map
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			name := fmt.Sprint("i", i)
			switch err := f.Grant(t.Context(), name, 1); {
			case err == nil:
				got.Store(name, true)
			case !errors.Is(err, port.SwitchRefused):
				t.Error(err)
			}
		})
	}
	all.Wait()
	n := 0
	got.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d got it", n)
	}
}

func TestGrantFile(t *testing.T) {
	ctx := t.Context()
	f := GrantFile{Dir: t.TempDir()}
	if err := f.Grant(ctx, "a", 1); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Renew(ctx, Renewal{Writer: "a", Epoch: 1, TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if err := f.Grant(ctx, "b", 2); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Renew(ctx, Renewal{Writer: "b", Epoch: 2, TTL: time.Hour}); !errors.Is(err, port.SwitchRefused) {
		t.Errorf("b got a lease while that of a runs: %v", err)
	}
	if _, err := f.Renew(ctx, Renewal{Writer: "a", Epoch: 1, TTL: time.Hour}); !errors.Is(err, port.SwitchRefused) {
		t.Errorf("a was renewed without the grant: %v", err)
	}
	if _, err := f.Renew(ctx, Renewal{Writer: "a", Epoch: 1, TTL: 0}); err != nil { // a has stopped
		t.Error(err)
	}
	g, err := f.Renew(ctx, Renewal{Writer: "b", Epoch: 2, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	read, err := f.Read(ctx)
	if err != nil || read.Writer != "b" || read.Epoch != 2 || read.Lease.Holder != "b" || read.Lease.Until.Sub(g.Lease.Until).Abs() > time.Minute {
		t.Errorf("read %+v, %v; renewed was %+v", read, err, g)
	}
}

// The holder of the lock may be frozen: a waiting call returns with its context.
func TestAHeldLockDoesNotHoldOthers(t *testing.T) {
	f := GrantFile{Dir: t.TempDir()}
	lock, err := host.Lock(f.Dir + "/" + grantLock)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := f.Read(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
