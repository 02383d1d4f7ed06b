package servertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/memory"
	"github.com/pawl-dev/pawl/cluster/providers"
	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/auth"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/view"
)

// newAccounts returns an account service with an operator's token, dan (admin) and uma of ROOT/dev, eve of ROOT.
func newAccounts(t *testing.T) (accounts *account.Service, token map[string]string) {
	t.Helper()
	accounts = &account.Service{Store: account.NewMemory()}
	if _, err := accounts.CreateDomain(t.Context(), account.System(), "dev", ""); err != nil {
		t.Fatal(err)
	}
	token = map[string]string{"op": Secret}
	for _, w := range []account.NewAccount{{Name: "dan", Domain: "ROOT/dev", Role: account.DomainAdmin}, {Name: "uma", Domain: "ROOT/dev"}, {Name: "eve"}} {
		if _, err := accounts.CreateAccount(t.Context(), account.System(), w); err != nil {
			t.Fatal(err)
		}
		_, plain, err := accounts.CreateToken(t.Context(), account.System(), account.NewCredential{Account: w.Name})
		if err != nil {
			t.Fatal(err)
		}
		token[w.Name] = plain.Reveal()
	}
	return accounts, token
}

// NewAccounts returns a fixture with accounts, and the tokens of op (operator), dan
// (admin) and uma of ROOT/dev, and eve of ROOT.
func NewAccounts(t *testing.T) (h *Fixture, accounts *account.Service, token map[string]string) {
	t.Helper()
	accounts, token = newAccounts(t)
	h = New(t, func(o *server.Options) {
		o.Accounts, o.Reviewer, o.Tokens = accounts, auth.AccountReviewer{Service: accounts}, Tokens(t, Secret)
	})
	return h, accounts, token
}

// clusterService is a provider with a catalog and free capacity that creates nothing.
type clusterService struct{ cluster.Provider }

func (clusterService) Capabilities() cluster.Capabilities {
	return cluster.Capabilities{Kinds: []cluster.Kind{cluster.VM}}
}

func (clusterService) Check(context.Context, cluster.Need) ([]cluster.Finding, error) {
	return nil, nil
}

func (clusterService) Catalog(_ context.Context, _ cluster.Owner, kind cluster.Kind) ([]cluster.Entry, error) {
	return []cluster.Entry{{Kind: kind, ID: "one", Name: "one", Cores: 2, MemoryMB: 2048, Default: true}}, nil
}

func (clusterService) List(context.Context, cluster.Filter, cluster.Cursor) (cluster.Page, error) {
	return cluster.Page{}, nil
}

func (clusterService) Get(context.Context, cluster.Ref) (cluster.Resource, error) {
	return cluster.Resource{}, cluster.ErrGone
}

// Clusters is a fixture with accounts and a cluster service that accepts requests. It
// validates answers against the OpenAPI document.
type Clusters struct {
	*Fixture
	Records *memory.Store
	Token   map[string]string
	shapes  *jsonschema.Compiler
	paths   *http.ServeMux // of the document
}

// Accepted is the answer to a request to a cluster.
type Accepted struct {
	Cluster   view.Cluster
	Operation *view.Operation
}

// NewClusters returns a fixture with clusters and the accounts of NewAccounts.
func NewClusters(t *testing.T, change ...func(*server.Options)) *Clusters {
	t.Helper()
	m := &Clusters{Records: memory.New(), shapes: jsonschema.NewCompiler(), paths: http.NewServeMux()}
	accounts, token := newAccounts(t)
	m.Token = token
	s, err := service.New(service.Options{Records: m.Records, Installation: "test", Directory: auth.Directory{Store: accounts.Store},
		Providers: []providers.Named{{Name: "shop", Provider: clusterService{}}}, Versions: []settings.Version{{ID: "v1", Name: "v1", Semantic: "1.0.0"}}})
	if err != nil {
		t.Fatal(err)
	}
	m.Fixture = New(t, func(o *server.Options) {
		o.Clusters, o.Accounts, o.Reviewer, o.Tokens = s, accounts, auth.AccountReviewer{Service: accounts}, Tokens(t, Secret)
		for _, one := range change {
			one(o)
		}
	})
	text := m.Do("GET", "/v1/openapi.json", nil, "Authorization", "Bearer "+Secret).Body
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err == nil {
		err = m.shapes.AddResource("mem:///openapi.json", document)
	}
	if err != nil {
		t.Fatal(err)
	}
	var known struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(text, &known); err != nil {
		t.Fatal(err)
	}
	for path, operations := range known.Paths {
		for method := range operations {
			m.paths.Handle(strings.ToUpper(method)+" "+path, http.NotFoundHandler())
		}
	}
	return m
}

// As sends a request, and validates the answer against the OpenAPI document.
func (m *Clusters) As(who, method, path string, body any, header ...string) Reply {
	m.T.Helper()
	if who != "" {
		header = append(header, "Authorization", "Bearer "+m.Token[who])
	}
	r := m.Do(method, path, body, header...)
	m.fits(method, path, r)
	return r
}

// fits validates an answer against the schema of its route and status.
func (m *Clusters) fits(method, path string, r Reply) {
	m.T.Helper()
	path, _, _ = strings.Cut(path, "?")
	probe, err := http.NewRequest(method, path, nil)
	if err != nil {
		m.T.Fatal(err)
	}
	_, pattern := m.paths.Handler(probe)
	_, documented, found := strings.Cut(pattern, " ")
	if !found || len(r.Body) == 0 {
		return
	}
	kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	escape := strings.NewReplacer("~", "~0", "/", "~1", "{", "%7B", "}", "%7D")
	pointer := fmt.Sprintf("mem:///openapi.json#/paths/%s/%s/responses/%d/content/%s/schema", escape.Replace(documented), strings.ToLower(method), r.Status, escape.Replace(kind))
	shape, err := m.shapes.Compile(pointer)
	if err != nil {
		m.T.Errorf("%s %s answers %d %s, which the document does not know: %v", method, path, r.Status, kind, err)
		return
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(r.Body))
	if err == nil {
		err = shape.Validate(value)
	}
	if err != nil {
		m.T.Errorf("%s %s: the answer does not fit the document: %v\n%s", method, path, err, r.Body)
	}
}

// Create creates a cluster.
func (m *Clusters) Create(who, name string) Accepted {
	m.T.Helper()
	r := m.As(who, "POST", "/v1/clusters", map[string]any{"name": name, "zone": "one", "offering": "one", "size": 2})
	if r.Status != http.StatusAccepted {
		m.T.Fatalf("create: %d %s", r.Status, r.Body)
	}
	var a Accepted
	r.Into(m.T, &a)
	if r.Header.Get("Location") != "/v1/operations/"+a.Operation.ID || r.Header.Get("ETag") != route.ETag(a.Cluster.Revision) {
		m.T.Errorf("headers %v of %+v", r.Header, a)
	}
	return a
}

// Put sets the state of a cluster, as the controller does, and stores a configuration.
func (m *Clusters) Put(id string, state machine.State) {
	m.T.Helper()
	b, err := m.Records.Record(m.T.Context(), id)
	if err != nil {
		m.T.Fatal(err)
	}
	d, err := m.Records.Details(m.T.Context(), id)
	if err != nil {
		m.T.Fatal(err)
	}
	b.Cluster.State, b.Cluster.Request, d.ConfigData = state, nil, "planted-config"
	b.Cluster.Desired = cluster.WantRunning
	if err := m.Records.Commit(m.T.Context(), &cluster.Change{Cluster: &b.Cluster, Details: d}); err != nil {
		m.T.Fatal(err)
	}
}
