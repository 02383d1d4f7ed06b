package events_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/memory"
	"github.com/pawl-dev/pawl/cluster/providers"
	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/auth"
	"github.com/pawl-dev/pawl/server/events"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/server/servertest"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// clustersServer is a fixture with accounts, and with cluster records that no run changes.
type clustersServer struct {
	*servertest.Fixture
	records  *memory.Store
	accounts *account.Service
}

func newClustersServer(t *testing.T, change func(*server.Options)) *clustersServer {
	t.Helper()
	w := &clustersServer{records: memory.New(), accounts: &account.Service{Store: account.NewMemory()}}
	clusters := newClusterService(t, w.records)
	w.Fixture = servertest.New(t, func(o *server.Options) {
		o.Clusters, o.Accounts, o.Reviewer, o.Tokens = clusters, w.accounts, auth.AccountReviewer{Service: w.accounts}, servertest.Tokens(t, servertest.Secret)
		if change != nil {
			change(o)
		}
	})
	return w
}

func newClusterService(t *testing.T, records cluster.Store) *service.Service {
	t.Helper()
	s, err := service.New(service.Options{Records: records, Installation: "test", Providers: []providers.Named{{Name: "none", Provider: struct{ cluster.Provider }{}}}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// addAccount creates an account and returns it with a token.
func (w *clustersServer) addAccount(name string) (account.Account, string) {
	w.T.Helper()
	a, err := w.accounts.CreateAccount(w.T.Context(), account.System(), account.NewAccount{Name: name, Role: account.User})
	if err != nil {
		w.T.Fatal(err)
	}
	_, token, err := w.accounts.CreateToken(w.T.Context(), account.System(), account.NewCredential{Account: a.ID, Name: "test"})
	if err != nil {
		w.T.Fatal(err)
	}
	return a, token.Reveal()
}

// addCluster stores the record of a cluster of an account.
func addCluster(t *testing.T, records cluster.Store, name string, owner cluster.Owner) *cluster.Cluster {
	t.Helper()
	c := &cluster.Cluster{UUID: "uuid-" + name, Name: name, Owner: owner, State: cluster.Running, Desired: cluster.WantRunning, NodeCount: 1, ControlCount: 1,
		Zone: cluster.Entity{ID: "z"}, Offering: cluster.Entity{ID: "o"}, Provider: "none", Created: time.Now().UTC(), StateSince: time.Now().UTC(), GC: true}
	if err := records.Commit(t.Context(), &cluster.Change{Cluster: c}); err != nil {
		t.Fatal(err)
	}
	return c
}

// addEvent writes an event into the history of a cluster.
func addEvent(t *testing.T, records cluster.Store, c *cluster.Cluster, kind, text string) {
	t.Helper()
	e := &cluster.Event{At: time.Now().UTC(), Type: kind, Event: text, State: string(c.State)}
	if err := records.Commit(t.Context(), &cluster.Change{ClusterID: c.ID, Events: []*cluster.Event{e}}); err != nil {
		t.Fatal(err)
	}
}

func ownerOf(a account.Account) cluster.Owner {
	return cluster.Owner{AccountID: a.ID, DomainID: a.DomainID}
}

func as(token string) []string { return []string{"Authorization", "Bearer " + token} }

// readEvents returns the events of clusters and runs in a stream, up to an event with a text.
func readEvents(e *servertest.EventReader, last string) string {
	e.T.Helper()
	var all []string
	for {
		h := e.Next()
		var c events.ClusterEvent
		if h.Kind == "run" || h.Kind == "step" {
			all = append(all, h.Kind)
		} else if err := json.Unmarshal([]byte(h.Data), &c); err == nil {
			all = append(all, h.Kind+" "+c.ID+" "+c.Event)
		}
		if strings.Contains(h.Data, last) {
			return strings.Join(all, ", ")
		}
	}
}

// Callers get only events of objects that they may list.
func TestEventsOfClustersAreThoseOfTheCaller(t *testing.T) {
	w := newClustersServer(t, nil)
	uma, umas := w.addAccount("uma")
	vik, viks := w.addAccount("vik")
	hers, his := addCluster(t, w.records, "hers", ownerOf(uma)), addCluster(t, w.records, "his", ownerOf(vik))

	operator := w.Listen("/v1/events?type=cluster,drift,leak", "", as(servertest.Secret)...)
	ofUma, ofVik := w.Listen("/v1/events", "", as(umas)...), w.Listen("/v1/events?type=cluster", "", as(viks)...)
	one := w.Listen("/v1/clusters/"+his.UUID+"/events", "", as(servertest.Secret)...)
	for _, c := range []*cluster.Cluster{hers, his} {
		addEvent(t, w.records, c, "audit", "ConfigRead")
		addEvent(t, w.records, c, "cluster", "Stop")
		addEvent(t, w.records, c, "leak", "Leaked")
		addEvent(t, w.records, c, "drift", "Drift")
	}
	addEvent(t, w.records, hers, "cluster", "last")
	addEvent(t, w.records, his, "cluster", "last")
	for _, c := range []struct {
		who, want string
		ear       *servertest.EventReader
	}{
		{"operator", "cluster uuid-hers Stop, leak uuid-hers Leaked, drift uuid-hers Drift, cluster uuid-his Stop, leak uuid-his Leaked, drift uuid-his Drift, cluster uuid-hers last", operator},
		{"uma", "cluster uuid-hers Stop, drift uuid-hers Drift, cluster uuid-hers last", ofUma},
		{"vik, asking for one type", "cluster uuid-his Stop, cluster uuid-his last", ofVik},
		{"the stream of one cluster", "cluster uuid-his Stop, leak uuid-his Leaked, drift uuid-his Drift, cluster uuid-his last", one},
	} {
		if got := readEvents(c.ear, `"last"`); got != c.want {
			t.Errorf("%s hears %s\n want %s", c.who, got, c.want)
		}
	}
	if got := w.Do("GET", "/v1/clusters/"+his.UUID+"/events", nil, as(umas)...); got.Status != 404 {
		t.Errorf("another's cluster: %d %s", got.Status, got.Body)
	}
}

// Callers who may see a cluster may read and pause its runs and get their events. All other runs are for operators.
func TestRunsOfAClusterAreItsOwners(t *testing.T) {
	w := newClustersServer(t, nil)
	uma, umas := w.addAccount("uma")
	_, viks := w.addAccount("vik")
	c := addCluster(t, w.records, "hers", ownerOf(uma))
	readers := map[string]*servertest.EventReader{"uma": w.Listen("/v1/events", "", as(umas)...), "vik": w.Listen("/v1/events", "", as(viks)...),
		"cluster": w.Listen("/v1/clusters/"+c.UUID+"/events?type=run", "", as(umas)...)}
	start := func(subject string) string {
		r, err := w.Engine.Start(t.Context(), workflow.Request{Flow: "Waits", Subject: subject})
		if err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	foreign, own := start("demo/default/c1"), start(cluster.Subject(c.UUID))
	for _, name := range []string{"uma", "cluster"} {
		h := readers[name].Next()
		if !strings.Contains(h.Data, own) {
			t.Errorf("%s hears %s", name, h.Data)
		}
	}
	for _, a := range []struct {
		method, path, token string
		body                any
		status              int
	}{
		{"GET", "/v1/runs/" + own, umas, nil, 200},
		{"GET", "/v1/runs/" + own + "/history", umas, nil, 200},
		{"POST", "/v1/runs/" + own + "/pause", umas, map[string]any{"reason": "wait"}, 202},
		{"POST", "/v1/runs/" + own + "/resume", umas, map[string]any{"actor": "the operator"}, 403},
		{"POST", "/v1/runs/" + own + "/signal", umas, map[string]any{"name": "caught-up"}, 403},
		{"POST", "/v1/runs/" + own + "/skip", umas, map[string]any{"step": "Caught"}, 403},
		{"GET", "/v1/runs/" + own, viks, nil, 404},
		{"POST", "/v1/runs/" + own + "/cancel", viks, map[string]any{}, 404},
		{"GET", "/v1/runs/" + own[:20], umas, nil, 404},
		{"GET", "/v1/runs/" + foreign, umas, nil, 404},
		{"GET", "/v1/runs/" + foreign + "/history", umas, nil, 404},
		{"GET", "/v1/events?run=" + foreign, umas, nil, 404},
		{"GET", "/v1/runs", umas, nil, 403},
		{"GET", "/v1/runs/" + foreign, servertest.Secret, nil, 200},
	} {
		if got := w.Do(a.method, a.path, a.body, as(a.token)...); got.Status != a.status {
			t.Errorf("%s %s: %d, want %d: %s", a.method, a.path, got.Status, a.status, got.Body)
		}
	}
	// The first event that vik gets is one that was written after all that.
	his := addCluster(t, w.records, "his", ownerOf(must(w.accounts.Find(t.Context(), account.System(), "vik"))))
	addEvent(t, w.records, his, "cluster", "Start")
	if h := readers["vik"].Next(); h.Kind != "cluster" {
		t.Errorf("vik hears %+v", h)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A reader of cluster events continues wherever it stopped.
func TestEventsOfClustersGoOn(t *testing.T) {
	w := newClustersServer(t, nil)
	uma, umas := w.addAccount("uma")
	hers, other := addCluster(t, w.records, "hers", ownerOf(uma)), addCluster(t, w.records, "other", cluster.Owner{AccountID: "x", DomainID: "y"})
	e := w.Listen("/v1/events", "", as(umas)...)
	for i := range 5 {
		addEvent(t, w.records, other, "cluster", "Hidden")
		addEvent(t, w.records, hers, "cluster", fmt.Sprint("n", i))
	}
	var whole []servertest.ReceivedEvent
	for range 5 {
		whole = append(whole, e.Next())
	}
	for i, at := range whole[:4] {
		again := w.Listen("/v1/clusters/"+hers.UUID+"/events", at.ID, as(umas)...)
		for _, want := range whole[i+1:] {
			if got := again.Next(); got.Data != want.Data {
				t.Errorf("behind event %d comes %s, want %s", i, got.Data, want.Data)
			}
		}
		again.Close()
	}
}

// A position whose next events were removed, or of another store, causes a reset.
func TestEventsOfClustersReset(t *testing.T) {
	w := newClustersServer(t, nil)
	c := addCluster(t, w.records, "hers", cluster.Owner{AccountID: "x", DomainID: "y"})
	e := w.Listen("/v1/events", "", as(servertest.Secret)...)
	addEvent(t, w.records, c, "cluster", "first")
	addEvent(t, w.records, c, "cluster", "second")
	first, second := e.Next(), e.Next()
	if n, err := w.records.Prune(t.Context(), time.Now().UTC().Add(time.Hour), cluster.Retention{Events: time.Minute}); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	addEvent(t, w.records, c, "cluster", "third")
	for _, p := range []struct{ id, want string }{{first.ID, "reset"}, {second.ID, "cluster"}, {strings.TrimSuffix(second.ID, ";2") + ";99", "reset"}} {
		again := w.Listen("/v1/events", p.id, as(servertest.Secret)...)
		if got := again.Next(); got.Kind != p.want {
			t.Errorf("behind %s comes %+v, want %s", p.id, got, p.want)
		}
		again.Close()
	}
}

// brokenStore is a store whose history cannot be read for a while.
type brokenStore struct {
	*memory.Store
	down atomic.Bool
}

func (b *brokenStore) Events(ctx context.Context, q cluster.EventQuery) ([]cluster.Event, error) {
	if b.down.Load() {
		return nil, errors.New("disk")
	}
	return b.Store.Events(ctx, q)
}

// storeOfOne is a TokenReviewer with one operator, which can be removed.
type storeOfOne struct{ gone atomic.Bool }

func (l *storeOfOne) ByToken(context.Context, auth.TokenHash) (route.Principal, bool, error) {
	return route.Principal{Name: "ole", Role: route.Operator}, !l.gone.Load(), nil
}

func (l *storeOfOne) Any(context.Context) (bool, error) { return true, nil }

// A stream ends if it cannot read, so that its reader reconnects. It also ends, with the
// next comment, if its credentials are not valid any more.
func TestStreamOfClustersEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := workflow.New(runstore.NewMemory(), nil, workflow.Options{})
		if err != nil {
			t.Fatal(err)
		}
		records := &brokenStore{Store: memory.New()}
		accounts := &storeOfOne{}
		s, err := server.New(server.Options{Engine: engine, Clusters: newClusterService(t, records), Reviewer: accounts, Listen: "127.0.0.1:1"})
		if err != nil {
			t.Fatal(err)
		}
		listen := func() <-chan struct{} {
			request := httptest.NewRequest("GET", "http://127.0.0.1/v1/events", nil)
			request.Header.Set("Authorization", "Bearer "+servertest.Secret)
			ended := make(chan struct{})
			go func() { s.ServeHTTP(&wire{header: http.Header{}}, request); close(ended) }()
			time.Sleep(40 * time.Second)
			select {
			case <-ended:
				t.Error("the stream ended by itself")
			default:
			}
			return ended
		}
		ended, began := listen(), time.Now()
		records.down.Store(true)
		<-ended
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("a store that fails was noticed after %s", took)
		}
		records.down.Store(false)
		ended, began = listen(), time.Now()
		accounts.gone.Store(true)
		<-ended
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("a revoked token got events for %s", took)
		}
	})
}
