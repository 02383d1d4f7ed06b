package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/cloudsign"
	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/provider/sim"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/cloudstack"
)

// counter counts calls by name.
type counter struct {
	mu sync.Mutex
	n  map[string]int
}

func newCounter() *counter { return &counter{n: map[string]int{}} }

func (c *counter) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n[name]++
}

func (c *counter) get(name string) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return float64(c.n[name])
}

// meter receives the metrics of the service.
type meter struct{ w *fixture }

func (m *meter) Collected(string) {}
func (m *meter) Operation(_, outcome string, _ time.Duration) {
	m.w.operations <- outcome
}

func (m *meter) ProviderCall(_, call, _ string, _ time.Duration) {
	m.w.calls.add(call)
}

func (m *meter) SyncPass(_ string, took time.Duration, _ int) {
	select {
	case m.w.passDurations <- took:
	default:
	}
}

const callers = 16

// startAPIs serves both HTTP APIs on a listener of their own.
func startAPIs(w *fixture) (base string, key account.Key, stop func(), err error) {
	accounts := &account.Service{Store: account.NewCachedStore(w.store.Accounts())}
	s, err := server.New(server.Options{Engine: w.engine, Clusters: w.service, Mount: map[string]http.Handler{
		cloudstack.Path: cloudstack.New(cloudstack.Options{Clusters: w.service, Accounts: accounts, Rate: 1_000_000})}})
	if err != nil {
		return "", key, nil, err
	}
	key, err = accounts.CreateKey(context.Background(), account.System(), account.NewCredential{Name: "bench"})
	if err != nil {
		return "", key, nil, err
	}
	listener := httptest.NewServer(s)
	return listener.URL, key, listener.Close, nil
}

// signed returns the URL of a signed request to the query API.
func signed(key account.Key, params map[string]string) string {
	params["apikey"], params["response"] = key.ID, "json"
	values := url.Values{}
	for name, value := range params {
		values.Set(name, value)
	}
	values.Set("signature", cloudsign.Sign(string(key.Secret), params))
	return cloudstack.Path + "?" + values.Encode()
}

// list reads pages and single clusters through both APIs.
func list(ctx context.Context, o options) (figures, error) {
	w, err := build(ctx, o, sim.Times{}, settings.Settings{})
	if err != nil {
		return nil, err
	}
	defer w.store.Close()
	if err := fillClusters(ctx, w.store.Clusters(), nil, o); err != nil {
		return nil, err
	}
	some, _, err := w.service.List(ctx, operator, cluster.ClusterQuery{Limit: 500})
	if err != nil {
		return nil, err
	}
	base, key, stop, err := startAPIs(w)
	if err != nil {
		return nil, err
	}
	defer stop()
	pages := max(1, o.clusters/100)
	cursors, err := pageCursors(ctx, base, pages)
	if err != nil {
		return nil, err
	}
	recorded, err := o.startProfile()
	if err != nil {
		return nil, err
	}
	defer recorded()
	f := figures{"clusters": float64(o.clusters), "callers": callers}
	for name, path := range map[string]func(int) string{
		"v1Page": func(i int) string { return "/v1/clusters?limit=100&cursor=" + cursors[i%len(cursors)] },
		"clientPage": func(i int) string {
			return signed(key, map[string]string{"command": "listContainerCluster", "page": fmt.Sprint(1 + i%pages), "pagesize": "100", "listall": "true"})
		},
		"v1Get": func(i int) string { return "/v1/clusters/" + some[i%len(some)].UUID },
		"clientGet": func(i int) string {
			return signed(key, map[string]string{"command": "listContainerCluster", "id": some[i%len(some)].UUID, "listall": "true"})
		},
	} {
		const requests = 3_000
		spent := cpuTime()
		times, err := load(ctx, base, requests, path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		f[name+"CPUMs"] = (cpuTime() - spent).Seconds() * 1000 / requests // of server and client
		f[name+"P50Ms"], f[name+"P99Ms"] = percentile(times, 0.50), percentile(times, 0.99)
	}
	f["pageP99Ms"] = max(f["v1PageP99Ms"], f["clientPageP99Ms"])
	f["getP99Ms"] = max(f["v1GetP99Ms"], f["clientGetP99Ms"])
	return f, nil
}

// load sends requests from closed-loop callers and returns their times.
func load(ctx context.Context, base string, requests int, path func(int) string) ([]time.Duration, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: callers}}
	defer client.CloseIdleConnections()
	times, errs := make([]time.Duration, requests), make(chan error, callers)
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := caller; i < requests; i += callers {
				began := time.Now()
				if _, err := fetch(ctx, client, base+path(i)); err != nil {
					errs <- err
					return
				}
				times[i] = time.Since(began)
			}
		})
	}
	all.Wait()
	close(errs)
	return times, <-errs
}

func fetch(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, body)
	}
	return body, err
}

// synchronise makes two passes over clusters without differences: the first one at
// the start, while the collector also runs, and a second one like those that follow
// every 30 s.
func synchronise(ctx context.Context, o options) (figures, error) {
	w, err := build(ctx, o, sim.Times{}, settings.Settings{SyncEvery: 5 * time.Second, CollectEvery: time.Hour})
	if err != nil {
		return nil, err
	}
	defer w.store.Close()
	if err := fillClusters(ctx, w.store.Clusters(), w.cloud, o); err != nil {
		return nil, err
	}
	debug.FreeOSMemory()
	before, cloud := w.store.Stats().Writes, resident()
	boot := watchResident()
	recorded, err := o.startProfile()
	if err != nil {
		return nil, err
	}
	defer recorded()
	stop := w.serve(ctx)
	defer stop()
	first, err := w.awaitPass(ctx)
	if err != nil {
		return nil, err
	}
	middle := w.store.Stats().Writes
	atBootWrites := float64(middle - before)
	atBoot := boot()
	debug.FreeOSMemory()
	peak := watchResident()
	records := w.calls.get(recordWrite)
	lists, gets, spent := w.calls.get("list"), w.calls.get("get"), cpuTime()
	took, err := w.awaitPass(ctx)
	if err != nil {
		return nil, err
	}
	spent, lists, gets = cpuTime()-spent, w.calls.get("list")-lists, w.calls.get("get")-gets
	// Other writes, such as those of locks, do not count.
	writes := w.calls.get(recordWrite) - records
	vms := float64(o.clusters * o.vms)
	return figures{
		"clusters": float64(o.clusters), "vms": vms, "firstPassSeconds": first.Seconds(), "passSeconds": took.Seconds(), "cpuSeconds": spent.Seconds(),
		"listCalls": lists, "getCalls": gets, "callsPerPage": (lists + gets) / (math.Ceil(vms/500) + otherKinds), "writes": writes, "writesAtBoot": atBootWrites,
		"cloudMiB": cloud, "bootMiB": atBoot, "residentMiB": peak(),
	}, nil
}

// otherKinds is the number of kinds that a pass lists besides VMs: each has a page,
// even an empty one.
const otherKinds = 5

// awaitPass waits for the end of a pass. Then no cluster may have a difference.
func (w *fixture) awaitPass(ctx context.Context) (time.Duration, error) {
	select {
	case took := <-w.passDurations:
		alert, _, err := w.service.List(ctx, operator, cluster.ClusterQuery{State: cluster.Alert, Limit: 1})
		if err == nil && len(alert) > 0 {
			err = fmt.Errorf("cluster %s is in Alert: %v", alert[0].Name, alert[0].Findings)
		}
		return took, err
	case <-time.After(timeout):
		return 0, fmt.Errorf("no pass ended within %s", timeout)
	}
}

// queryHandler returns the handler of the query API, for calls without a network.
func queryHandler(w *fixture) (http.Handler, account.Key, error) {
	accounts := &account.Service{Store: account.NewCachedStore(w.store.Accounts())}
	key, err := accounts.CreateKey(context.Background(), account.System(), account.NewCredential{Name: "bench"})
	return cloudstack.New(cloudstack.Options{Clusters: w.service, Accounts: accounts, Rate: 1_000_000}), key, err
}

// requests sends requests to the query API, on one core.
func requests(ctx context.Context, o options) (figures, error) {
	w, err := build(ctx, o, sim.Times{}, settings.Settings{})
	if err != nil {
		return nil, err
	}
	defer w.store.Close()
	if err := fillClusters(ctx, w.store.Clusters(), nil, o); err != nil {
		return nil, err
	}
	some, _, err := w.service.List(ctx, operator, cluster.ClusterQuery{Limit: 500})
	if err != nil {
		return nil, err
	}
	face, key, err := queryHandler(w)
	if err != nil {
		return nil, err
	}
	runtime.GOMAXPROCS(1)
	recorded, err := o.startProfile()
	if err != nil {
		return nil, err
	}
	defer recorded()
	const sent = 5_000
	f := figures{}
	for name, params := range map[string]func(int) map[string]string{
		"list": func(i int) map[string]string {
			return map[string]string{"command": "listContainerCluster", "id": some[i%len(some)].UUID, "listall": "true"}
		},
		"apis": func(int) map[string]string { return map[string]string{"command": "listApis", "name": "listApis"} },
	} {
		began := time.Now()
		for i := range sent {
			answer := httptest.NewRecorder()
			face.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, signed(key, params(i)), nil))
			if answer.Code != http.StatusOK {
				return nil, fmt.Errorf("%d: %s", answer.Code, answer.Body)
			}
		}
		f[name+"PerSecond"] = sent / time.Since(began).Seconds()
	}
	return f, nil
}

// pageCursors returns the cursors of all pages.
func pageCursors(ctx context.Context, base string, pages int) ([]string, error) {
	cursors := []string{""}
	for len(cursors) < pages {
		body, err := fetch(ctx, http.DefaultClient, base+"/v1/clusters?limit=100&cursor="+cursors[len(cursors)-1])
		if err != nil {
			return nil, err
		}
		var page struct{ Next string }
		if err := json.Unmarshal(body, &page); err != nil {
			return nil, err
		}
		if page.Next == "" {
			break
		}
		cursors = append(cursors, page.Next)
	}
	return cursors, nil
}

const timeout = 2 * time.Minute

// describeStuck describes the first cluster that is not Running.
func describeStuck(ctx context.Context, w *fixture) string {
	all, _, err := w.service.List(ctx, operator, cluster.ClusterQuery{Limit: -1})
	if err != nil {
		return err.Error()
	}
	for _, c := range all {
		if c.State == cluster.Running {
			continue
		}
		text := fmt.Sprintf("%s is %s: %+v", c.Name, c.State, c.Reason)
		if r, err := w.engine.Get(ctx, c.RunID); err == nil {
			text += fmt.Sprintf("; its run is %s", r.Phase)
			for s := range r.Steps() {
				text += fmt.Sprintf(" %s:%s", s.Name, s.Phase)
			}
			if r.Fault != nil {
				text += " " + r.Fault.Message
			}
		}
		return text
	}
	return ""
}
