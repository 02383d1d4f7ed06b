package cloudstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

// roundTripFunc is a server without a network, so that time can be virtual.
type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func reply(status int, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}
}

// served returns the answer of a healthy server to a command.
func served(r *http.Request) *http.Response {
	command := commandOf(r)
	body := "{}"
	switch command {
	case "listZones":
		body = `{"count":1,"zone":[{"id":"z1","name":"z1","allocationstate":"Enabled"}]}`
	case "queryAsyncJobResult":
		return reply(431, `{"queryasyncjobresultresponse":{"errorcode":431,"errortext":"no such job"}}`)
	case "listApis":
		body = `{"count":1,"api":[{"name":"deployVirtualMachine","params":[{"name":"customjobid"}]}]}`
	}
	return reply(200, fmt.Sprintf(`{"%sresponse":%s}`, strings.ToLower(command), body))
}

func commandOf(r *http.Request) string {
	if err := r.ParseForm(); err != nil {
		panic(err)
	}
	return r.Form.Get("command")
}

func provider(t testing.TB, f roundTripFunc, change ...func(*Options)) *Provider {
	t.Helper()
	o := Options{URL: "https://cloud.example.org/client/api", APIKey: "KEY", Secret: "SECRET", Installation: "exam", Client: &http.Client{Transport: f}}
	for _, c := range change {
		c(&o)
	}
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var vmRef = cluster.Ref{Kind: cluster.VM, ID: "11111111-1111-4111-8111-111111111111", Name: "vm", Zone: "z1"}

func TestNeverMoreThanTwentyASecondAndTenAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var began []time.Time
		var now, most atomic.Int32
		p := provider(t, func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			began = append(began, time.Now())
			mu.Unlock()
			most.Store(max(most.Load(), now.Add(1)))
			time.Sleep(500 * time.Millisecond) // ten calls begin meanwhile
			now.Add(-1)
			return served(r), nil
		})
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if _, err := p.List(t.Context(), cluster.Filter{Zone: "z1"}, ""); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if most.Load() != 10 {
			t.Errorf("%d calls at a time, want 10", most.Load())
		}
		slices.SortFunc(began, time.Time.Compare)
		for i := 1; i < len(began); i++ {
			if d := began[i].Sub(began[i-1]); d < 49*time.Millisecond {
				t.Fatalf("two calls in %s: they are spread over the second", d)
			}
		}
		for i := 20; i < len(began); i++ {
			if d := began[i].Sub(began[i-20]); d < time.Second {
				t.Fatalf("21 calls in %s", d)
			}
		}
		if took := began[99].Sub(began[0]); took > 5*time.Second {
			t.Errorf("100 calls took %s: the limit is not used", took)
		}
	})
}

func TestZonesDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		p := provider(t, func(r *http.Request) (*http.Response, error) {
			res := served(r)
			if r.Form.Get("zoneid") == "z1" {
				<-stuck
			}
			return res, nil
		}, func(o *Options) { o.Parallel = 1 })
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := p.List(t.Context(), cluster.Filter{Zone: "z1"}, ""); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if _, err := p.List(t.Context(), cluster.Filter{Zone: "z2"}, ""); err != nil {
			t.Error(err)
		}
		close(stuck)
		wg.Wait()
	})
}

func TestThrottleIsHonoured(t *testing.T) {
	for name, c := range map[string]struct {
		header, text string
		wait         time.Duration
	}{
		"seconds":      {"7", "", 7 * time.Second},
		"a date":       {"Sat, 01 Jan 2000 00:00:20 GMT", "", 20 * time.Second}, // synctest begins at midnight
		"in the text":  {"", "The given user has reached his/her account api limit, please retry after 2500 ms.", 2500 * time.Millisecond},
		"nothing said": {"", "slow down", time.Second},
		"nonsense":     {"-5 bananas", "", time.Second},
		"for ever":     {"999999999999", "", time.Minute},
		"a day":        {"86400", "", time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				first := true
				p := provider(t, func(r *http.Request) (*http.Response, error) {
					if !first {
						return served(r), nil
					}
					first = false
					res := reply(429, `{"listvirtualmachinesresponse":{"errorcode":429,"errortext":"`+c.text+`"}}`)
					res.Header.Set("Retry-After", c.header)
					return res, nil
				})
				if _, err := p.List(t.Context(), cluster.Filter{Zone: "z1"}, ""); fault.Of(err) != cluster.ProviderThrottled {
					t.Fatalf("%v", err)
				}
				short, cancel := context.WithTimeout(t.Context(), c.wait/2)
				defer cancel()
				if _, err := p.List(short, cluster.Filter{Zone: "z1"}, ""); fault.Of(err) != cluster.ProviderThrottled {
					t.Errorf("a caller that cannot wait gets: %v", err)
				}
				began := time.Now()
				if _, err := p.List(t.Context(), cluster.Filter{Zone: "z2"}, ""); err != nil {
					t.Error(err)
				}
				if waited := time.Since(began); waited != c.wait {
					t.Errorf("waited %s, want %s", waited, c.wait)
				}
			})
		})
	}
}

func TestACallWithoutAnAnswerIsUnknownAfterAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := provider(t, func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		began := time.Now()
		_, err := p.Get(t.Context(), vmRef)
		if fault.Of(err) != cluster.ProviderUnreachable || errors.Is(err, cluster.ErrGone) {
			t.Errorf("%v", err)
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it took %s", took)
		}
	})
}

func TestPollIntervalGrowsByASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		status := 0
		p := provider(t, func(r *http.Request) (*http.Response, error) {
			if commandOf(r) == "queryAsyncJobResult" {
				return reply(200, fmt.Sprintf(`{"queryasyncjobresultresponse":{"jobid":"j","jobstatus":%d}}`, status)), nil
			}
			return served(r), nil
		})
		call := cluster.Call{Job: "j", Ref: vmRef}
		for n := 1; n <= 20; n++ {
			got, err := p.Poll(t.Context(), call)
			if want := time.Duration(min(n, 15)) * time.Second; err != nil || got.Done || got.PollAfter != want {
				t.Errorf("poll %d: %+v, %v; want %s", n, got, err, want)
			}
		}
		status = 1
		if got, err := p.Poll(t.Context(), call); err != nil || !got.Done || got.Err != nil {
			t.Errorf("%+v, %v", got, err)
		}
		status = 0
		if got, _ := p.Poll(t.Context(), call); got.PollAfter != time.Second {
			t.Errorf("a new call begins at %s", got.PollAfter)
		}
	})
}

func TestLockOfANameEndsWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l locks
		unlock, err := l.lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.lock(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		other, err := l.lock(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		other()
		unlock()
		again, err := l.lock(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		again()
		if len(l.held) != 0 {
			t.Errorf("%d names are kept", len(l.held))
		}
	})
}

func TestRecentIsBounded(t *testing.T) {
	var r recent
	want := func(i int) *cluster.DesiredResource {
		return &cluster.DesiredResource{Kind: cluster.VM, Key: fmt.Sprint(i), Tags: map[string]string{cluster.TagCluster: "c"}}
	}
	for i := range 3 * maxRecent {
		r.put(want(i), fmt.Sprint("id", i))
	}
	if len(r.ids) != maxRecent || r.get(want(0)) != "" || r.get(want(3*maxRecent-1)) == "" {
		t.Errorf("%d are kept", len(r.ids))
	}
}

// A call whose slot would come after its deadline releases it and fails without an answer.
func TestFinding22NoTurnBeforeTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := provider(t, func(r *http.Request) (*http.Response, error) { return served(r), nil }, func(o *Options) { o.Parallel, o.Rate = 1, 1 })
		if _, err := p.List(t.Context(), cluster.Filter{Zone: "z1"}, ""); err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if _, err := p.List(short, cluster.Filter{Zone: "z1"}, ""); fault.Of(err) != cluster.ProviderUnreachable {
			t.Errorf("%v", err)
		}
		began := time.Now()
		if _, err := p.List(t.Context(), cluster.Filter{Zone: "z1"}, ""); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("the next call waited %s", took)
		}
	})
}
