package workers_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/lock"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/server/servertest"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

func TestWorkersAreListedWithTheirRuns(t *testing.T) {
	h := servertest.New(t, nil)
	run, err := h.Store.Create(t.Context(), &runtype.Run{ID: "01kb00000000000000000000aa", Flow: "Waits", Subject: "demo/default/c1", Owner: "other", Epoch: 1, CreatedAt: time.Now()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Items []view.Worker }
	h.Do("GET", "/v1/workers", nil).Into(t, &list)
	var other *view.Worker
	for i := range list.Items {
		if list.Items[i].Name == "other" {
			other = &list.Items[i]
		}
	}
	if other == nil || other.Count != 1 || other.Expired || other.Lease != "15s" || len(other.Runs) != 1 || other.Runs[0].ID != run.ID || other.Runs[0].Flow != "Waits" {
		t.Fatalf("got %+v", list)
	}
}

func TestNoLocks(t *testing.T) {
	h := servertest.New(t, nil)
	if got := h.Do("GET", "/v1/locks", nil); got.Status != http.StatusNotImplemented || got.Problem(t).Code != route.NotServed.Code {
		t.Errorf("no locks: %d %s", got.Status, got.Body)
	}
}

func TestLocksAreListed(t *testing.T) {
	locks := &lock.Memory{}
	h := servertest.New(t, func(o *server.Options) { o.Locks = locks })
	ctx := t.Context()
	put := func(name, value string) {
		if err := locks.Transact(ctx, name, func(time.Time, []byte) ([]byte, bool) { return []byte(value), true }); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := (lock.Locker{Backend: locks, Owner: "uma", Duration: time.Hour}).Take(ctx, "cluster/sync/zone-1"); err != nil {
		t.Fatal(err)
	}
	if _, err := (lock.Locker{Backend: locks}).Deny(ctx, "cluster/sync/zone-1", lock.Entry{ID: "old"}, lock.Entry{ID: "older"}); err != nil {
		t.Fatal(err)
	}
	put("a-past", `{"record":{"owner":"max","start":"2026-01-01T00:00:00Z","end":"2026-01-01T00:01:00Z"}}`)
	put("free", `{"deny":["max"]}`)
	put("odd", `[1]`)
	put(lock.ReservedPrefix+"kinds", `[]`)
	var seen []string
	for path := "/v1/locks?limit=2"; ; {
		var list struct {
			Items []view.Lock
			Next  string
		}
		h.Do("GET", path, nil).Into(t, &list)
		for _, l := range list.Items {
			state := "free"
			switch {
			case l.Unreadable != "":
				state = "unreadable"
			case l.Expired:
				state = "expired of " + l.Holder
			case l.Holder != "":
				state = "held by " + l.Holder
				if l.Until.Sub(*l.Since) != time.Hour {
					t.Errorf("%s from %s until %s", l.Name, l.Since, l.Until)
				}
			}
			seen = append(seen, l.Name+" "+state+" "+strings.Join(l.Denied, ","))
		}
		if list.Next == "" {
			break
		}
		path = "/v1/locks?limit=2&cursor=" + list.Next
	}
	want := []string{"a-past expired of max ", "cluster/sync/zone-1 held by uma old,older", "free free max", "odd unreadable "}
	if strings.Join(seen, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", seen, want)
	}
	if got := h.Do("GET", "/v1/locks?cursor=~", nil); got.Status != http.StatusBadRequest {
		t.Errorf("a bad cursor: %d %s", got.Status, got.Body)
	}
}
