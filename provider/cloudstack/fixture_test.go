package cloudstack_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/provider/cloudstack"
	"github.com/pawl-dev/pawl/provider/cloudstack/cloudstacktest"
	"github.com/pawl-dev/pawl/provider/sim"
)

const installation = "exam"

var owner = cluster.Owner{AccountID: "acme", DomainID: "d1"}

// fixture is a cloud behind its API. A test can intercept the requests.
type fixture struct {
	t     testing.TB
	cloud *sim.Cloud
	url   string
	http  *http.Client

	mu         sync.Mutex
	before     func(command string, n int) answer // n counts the requests of all commands, from 1
	n          int
	requestLog []sentRequest
}

type sentRequest struct {
	command, method string
	params          url.Values
}

// answer replaces the API's answer to a request; zero: the API's own.
type answer struct {
	status int    // 0: the API's
	lost   bool   // the connection ends
	after  bool   // after the API has executed it
	body   string // of the status
	twice  bool   // the request reaches the API twice
	header http.Header
}

func newFixture(t testing.TB, o sim.Options, w cloudstacktest.Options) *fixture {
	t.Helper()
	o.Installation = installation
	cloud, err := sim.New(o)
	if err != nil {
		t.Fatal(err)
	}
	r := &fixture{t: t, cloud: cloud}
	w.Cloud = cloud
	w.Users = map[string]cloudstacktest.User{
		"KEY":   {Secret: "SECRET", Account: "acme", DomainID: "d1"},
		"ADMIN": {Secret: "SECRET", Account: "acme", DomainID: "d1", Admin: true},
	}
	api := cloudstacktest.New(w)
	r.url = "https://cloud.example.org/client/api"
	r.http = &http.Client{Transport: directTransport(func(rw http.ResponseWriter, req *http.Request) { r.serve(api, rw, req) })}
	t.Cleanup(func() { cloud.Close() })
	return r
}

// directTransport is a server without a connection: thousands of tests need no sockets.
type directTransport http.HandlerFunc

func (d directTransport) RoundTrip(req *http.Request) (res *http.Response, err error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	w := httptest.NewRecorder()
	defer func() {
		switch end := recover(); {
		case end == http.ErrAbortHandler:
			res, err = nil, io.ErrUnexpectedEOF
		case end != nil:
			panic(end)
		case req.Context().Err() != nil:
			res, err = nil, req.Context().Err()
		}
	}()
	d(w, req)
	return w.Result(), nil
}

func (r *fixture) serve(api http.Handler, w http.ResponseWriter, req *http.Request) {
	if err := req.ParseForm(); err != nil {
		r.t.Error(err)
	}
	command := req.Form.Get("command")
	r.mu.Lock()
	r.n++
	n, before := r.n, r.before
	r.requestLog = append(r.requestLog, sentRequest{command, req.Method, req.Form})
	r.mu.Unlock()
	var a answer
	if before != nil {
		a = before(command, n)
	}
	if a.after || a.twice {
		api.ServeHTTP(httptest.NewRecorder(), req)
	}
	switch {
	case a.lost:
		panic(http.ErrAbortHandler)
	case a.status != 0:
		for key, values := range a.header {
			w.Header()[key] = values
		}
		w.WriteHeader(a.status)
		w.Write([]byte(a.body))
	default:
		api.ServeHTTP(w, req)
	}
}

// intercept sets the function that handles requests before the API.
func (r *fixture) intercept(before func(command string, n int) answer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before, r.n, r.requestLog = before, 0, nil
}

func (r *fixture) requests() []sentRequest {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]sentRequest(nil), r.requestLog...)
}

func (r *fixture) options() cloudstack.Options {
	return cloudstack.Options{
		URL: r.url, APIKey: "ADMIN", Secret: "SECRET", Installation: installation, NetworkOffering: "isolated", DefaultTemplate: "node-image",
		Rate: 100_000, Parallel: 50, Poll: time.Millisecond, PollMax: 5 * time.Millisecond, Client: r.http,
	}
}

func (r *fixture) client(change ...func(*cloudstack.Options)) *cloudstack.Provider {
	r.t.Helper()
	o := r.options()
	for _, f := range change {
		f(&o)
	}
	p, err := cloudstack.New(o)
	if err != nil {
		r.t.Fatal(err)
	}
	return p
}
