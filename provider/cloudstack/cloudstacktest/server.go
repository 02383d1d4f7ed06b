// Package cloudstacktest serves a sim.Cloud over the CloudStack API, to test its clients.
//
//	cloud, err := sim.New(sim.Options{RefuseInJob: true, LateSourceNAT: true})
//	api := cloudstacktest.New(cloudstacktest.Options{Cloud: cloud, Users: map[string]cloudstacktest.User{"KEY": {Secret: "SECRET", Account: "acme", DomainID: "d1"}}})
//	srv := httptest.NewServer(api)
//
// It is as strict as the real API: a wrong signature returns 401, an unknown
// parameter is signed and ignored, an asynchronous command returns a job, a tag
// needs its own call, and an empty list is an empty object. Injected faults of the
// cloud reach the client as it would see them: no answer at all, 429, 401, or an
// error in a job. sim logs the calls by its verbs: deployVirtualMachine as Create
// of a VM, a list by id as Get, other lists as List or Catalog, createTags and
// assignToLoadBalancerRule as Edit, queryAsyncJobResult as Poll.
package cloudstacktest

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/provider/sim"
)

// User is the user of an API key. Its resources belong to the owner (Account, DomainID).
type User struct {
	Secret   string
	Account  string // name and cluster.Owner.AccountID
	DomainID string
	Admin    bool // may see and create resources of all accounts, and sees destroyed VMs
	Disabled bool
}

func (u User) owner() cluster.Owner {
	return cluster.Owner{AccountID: u.Account, DomainID: u.DomainID}
}

// Options of a server. Cloud and Users are required.
type Options struct {
	Cloud *sim.Cloud
	Users map[string]User  // by API key
	Now   func() time.Time // for expires and PerSecond; nil: time.Now
	// NoCustomJobID simulates an older server: customjobid is not in listApis and is ignored.
	NoCustomJobID bool
	// NoRootDiskSize simulates a server whose VMs are as large as their template: rootdisksize
	// is not in listApis and is ignored.
	NoRootDiskSize bool
	// Enforce requires POST for changes, and version 3 signatures that expire within 15
	// minutes.
	Enforce   bool
	PerSecond int // maximum calls per key and second; 0: no limit
	// VagueErrors answers 530 where a server could return a more precise error.
	VagueErrors bool
	// OnRequest is called for every authenticated request before its effect.
	OnRequest func(command string, params url.Values, method string)
}

// Server is an http.Handler for any path.
type Server struct {
	o        Options
	client   *sim.Client
	commands map[string]command

	mu      sync.Mutex
	seconds map[string]window
}

type window struct {
	at time.Time
	n  int
}

// New returns a server.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Server{o: o, client: o.Cloud.As(""), commands: map[string]command{}, seconds: map[string]window{}}
	for _, c := range commands {
		s.commands[strings.ToLower(c.name)] = c
	}
	return s
}

// command is one command of the API.
type command struct {
	name   string
	async  bool
	admin  bool
	params string // names; a star marks the required ones
	run    func(*request) (answer, error)
}

// answer is a list, an object, or a job.
type answer struct {
	key   string // of the objects; empty: directly in the envelope
	list  []object
	total int
	one   object
	id    string // of the resource that an asynchronous command has created
	job   string
}

type object map[string]any

// failure is an error of the API.
type failure struct {
	code, cs int
	text     string
}

func (f *failure) Error() string { return f.text }

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	params, err := merged(r)
	name := params.Get("command")
	if err != nil {
		reply(w, "errorresponse", nil, &failure{400, 4250, "unreadable request: " + err.Error()})
		return
	}
	unreachable, refused := s.o.Cloud.Outage()
	if unreachable {
		panic(http.ErrAbortHandler)
	}
	user, bad := s.authenticate(params)
	switch {
	case refused:
		bad = unauthorized
	case bad == nil:
		bad = s.throttle(params.Get("apikey"))
	}
	cmd, known := s.commands[strings.ToLower(name)]
	envelope := strings.ToLower(cmd.name) + "response"
	switch {
	case !known:
		envelope = "errorresponse"
		if bad == nil {
			bad = &failure{432, 4555, "The given command '" + name + "' either does not exist, is not available for user, or not available from ip address."}
		}
	case bad != nil:
	case cmd.admin && !user.Admin:
		bad = &failure{432, 4555, "The given command '" + name + "' does not exist or it is not available for user."}
	case s.o.Enforce && r.Method != http.MethodPost && changes(cmd.name):
		bad = &failure{400, 4250, "The command must be sent by POST."}
	case params.Get("response") != "" && params.Get("response") != "json":
		bad = &failure{431, 4350, "only JSON is served here"}
	}
	if bad != nil {
		reply(w, envelope, nil, bad)
		return
	}
	if s.o.OnRequest != nil {
		s.o.OnRequest(cmd.name, params, r.Method)
	}
	req := &request{Server: s, ctx: r.Context(), params: params, user: user, command: cmd}
	got, err := req.handle()
	if err != nil {
		bad = s.failureOf(err)
		if bad == nil {
			panic(http.ErrAbortHandler) // no answer: close the connection
		}
		reply(w, envelope, nil, bad)
		return
	}
	reply(w, envelope, got.body(), nil)
}

// merged returns the parameters of query and body, by lower-case name; the last value in
// the query wins.
func merged(r *http.Request) (url.Values, error) {
	if err := r.ParseForm(); err != nil {
		return nil, err
	}
	all := url.Values{}
	for _, from := range []url.Values{r.PostForm, r.URL.Query()} {
		for name, values := range from {
			all.Set(strings.ToLower(name), values[len(values)-1])
			all.Set(rawPrefix+strings.ToLower(name), name)
		}
	}
	return all, nil
}

// rawPrefix marks the entry with a parameter's name as it was sent: signatures sort by
// that name.
const rawPrefix = "\x00raw:"

func changes(command string) bool {
	for _, prefix := range []string{"list", "get", "query", "find"} {
		if strings.HasPrefix(command, prefix) {
			return false
		}
	}
	return true
}

func (s *Server) throttle(key string) *failure {
	if s.o.PerSecond <= 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, w := s.o.Now(), s.seconds[key]
	if now.Sub(w.at) >= time.Second {
		w = window{at: now}
	}
	w.n++
	s.seconds[key] = w
	if w.n > s.o.PerSecond {
		return &failure{429, 4545, "The given user has reached his/her account api limit, please retry after 1000 ms."}
	}
	return nil
}

// body returns the content of the envelope.
func (a answer) body() object {
	switch {
	case a.job != "" && a.id != "":
		return object{"id": a.id, "jobid": a.job}
	case a.job != "":
		return object{"jobid": a.job}
	case a.one != nil && a.key != "":
		return object{a.key: a.one}
	case a.one != nil:
		return a.one
	case len(a.list) == 0:
		return object{}
	default:
		return object{"count": a.total, a.key: a.list}
	}
}

func reply(w http.ResponseWriter, envelope string, body object, bad *failure) {
	status := http.StatusOK
	if bad != nil {
		status, body = bad.code, bad.body()
	}
	text, err := json.Marshal(object{envelope: body})
	if err != nil {
		panic(err) // maps, strings and numbers always encode
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	w.Write(text)
}

func (f *failure) body() object {
	return object{"uuidList": []string{}, "errorcode": f.code, "cserrorcode": f.cs, "errortext": f.text}
}
