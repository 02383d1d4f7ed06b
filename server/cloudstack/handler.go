package cloudstack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/cluster/cloudsign"
	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/cluster/settings"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/server/auth"
	"github.com/pawl-dev/pawl/server/route"
)

// Path is the path of the API.
const Path = "/client/api"

// Clusters is the part of the cluster service that this API uses.
type Clusters interface {
	Create(ctx context.Context, who cluster.Caller, r api.CreateRequest) (*cluster.Cluster, *cluster.Job, error)
	Change(ctx context.Context, who cluster.Caller, uuid string, r api.ChangeRequest) (*cluster.Cluster, *cluster.Job, error)
	Forget(ctx context.Context, who cluster.Caller, uuid, confirm, jobID string) (*cluster.Job, error)
	PlanCreate(ctx context.Context, who cluster.Caller, r api.CreateRequest) (*api.DryRun, error)
	PlanChange(ctx context.Context, who cluster.Caller, uuid string, r api.ChangeRequest) (*api.DryRun, error)
	Get(ctx context.Context, who cluster.Caller, id string) (*cluster.Record, error)
	List(ctx context.Context, who cluster.Caller, q cluster.ClusterQuery) ([]cluster.Cluster, int, error)
	Nodes(ctx context.Context, clusters []cluster.Cluster) (map[int64][]cluster.Node, error)
	VMs(ctx context.Context, clusters []cluster.Cluster) (map[int64][]string, error)
	Reach(ctx context.Context, clusters []cluster.Cluster) (map[int64]cluster.Reach, error)
	Explanations(ctx context.Context, clusters []cluster.Cluster) (map[string]api.Explanation, error)
	Explanation(ctx context.Context, uuid string) (api.Explanation, error)
	Drift(ctx context.Context, who cluster.Caller, uuid string) (*api.DriftReport, error)
	Config(ctx context.Context, who cluster.Caller, uuid string) (*api.Config, error)
	Leaks(ctx context.Context, who cluster.Caller, uuid string, kind cluster.Kind, offset, limit int) ([]api.Leak, int, error)
	Job(ctx context.Context, who cluster.Caller, id string) (*cluster.Job, error)
	Jobs(ctx context.Context, who cluster.Caller, q cluster.JobQuery) ([]cluster.Job, int, error)
	Catalog(ctx context.Context, who cluster.Caller, kind cluster.Kind) ([]cluster.Entry, error)
	Versions() settings.Versions
}

var _ Clusters = (*service.Service)(nil)

// Options of a Handler. Clusters and Accounts are required.
type Options struct {
	Clusters Clusters
	Accounts *account.Service

	EnforcePostAndExpiry bool // accept only signatures of version 3, and changes only by POST
	PageMax              int  // maximum size of a page, and of a list without one; default 500
	Rate                 int  // requests per second and account; default 50
	Burst                int  // requests at once after a pause; default 2 x Rate

	Observe  func(command string, code int, took time.Duration) // is called after each answered request
	Stopping func() bool                                        // true: answer 503; nil: never
	Logger   *slog.Logger
	Now      func() time.Time
}

// Handler serves /client/api. It is an http.Handler for server.Options.Mount.
type Handler struct {
	options   Options
	commands  []*command
	byName    map[string]*command // in lower case
	directory auth.Directory
	rate      *limiters
	refused   *limiters // of unauthenticated requests, by address
}

// New returns a Handler.
func New(o Options) *Handler {
	if o.PageMax <= 0 {
		o.PageMax = 500
	}
	if o.Rate <= 0 {
		o.Rate = 50
	}
	if o.Burst <= 0 {
		o.Burst = 2 * o.Rate
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = func() time.Time { return time.Now().UTC() }
	}
	all, byName := routes()
	return &Handler{
		options: o, commands: all, byName: byName, directory: auth.Directory{Store: o.Accounts.Store},
		rate: newLimiters(o.Rate, o.Burst), refused: newLimiters(o.Rate, o.Burst),
	}
}

// call is a request in progress.
type call struct {
	*Handler
	command *command // nil: unknown
	name    string   // as it was sent
	sent    parameters
	values  values
	account account.Caller
	who     cluster.Caller // zero before authentication
	target  string         // object of the call, for the audit trail
	names   map[cluster.Owner][2]string

	standings map[string]api.Explanation // of the clusters in the answer, by uuid
}

// ServeHTTP answers one request.
func (f *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := time.Now()
	c := &call{Handler: f, names: map[cluster.Owner][2]string{}}
	answer, err := c.serve(r)
	c.writeAudit(r.Context(), err)
	code := http.StatusOK
	if err != nil {
		code = c.writeError(w, r, err)
	} else {
		c.write(w, r, http.StatusOK, answer)
	}
	if f.options.Observe != nil {
		name := "unknown"
		if c.command != nil {
			name = c.command.name
		}
		f.options.Observe(name, code, time.Since(began))
	}
}

// serve executes a request. The order of its checks is that of the package comment.
func (c *call) serve(r *http.Request) (any, error) {
	if r.Method != http.MethodGet && r.Method != http.MethodPost {
		return nil, failure{methodNotAllowed, route.NoMethod.Errorf("%s takes GET and POST", Path)}
	}
	if c.options.Stopping != nil && c.options.Stopping() {
		return nil, Stopping.Errorf("the server is stopping")
	}
	var err error
	if c.sent, err = read(r); err != nil {
		return nil, err
	}
	c.name = c.sent.get("command")
	if strings.EqualFold(c.name, "login") {
		return nil, c.login(r)
	}
	c.command = c.byName[strings.ToLower(c.name)]
	if form := c.sent.get("response"); form != "" && !strings.EqualFold(form, "json") {
		return nil, ParameterWrong.Errorf("%s: parameter response: %q: only json is served", c.name, form)
	}
	if c.command == nil {
		if c.name == "" {
			return nil, CommandUnknown.Errorf("the request names no command")
		}
		return nil, CommandUnknown.Errorf("there is no command %s", c.name)
	}
	if err := c.authenticate(r); err != nil {
		return nil, err
	}
	if c.command.operators && !c.who.Operator {
		return nil, CommandRefused.Errorf("%s: %s is %s, the command is for operators", c.command.name, c.account.Name, c.account.Role)
	}
	if c.values, err = c.command.check(c.sent); err != nil {
		return nil, err
	}
	return c.command.run(r.Context(), c)
}

// login refuses every login. A well-known CLI tries one after a 401, with well-known passwords.
func (c *call) login(r *http.Request) error {
	err := NoLogin.Errorf("login: there are no passwords here")
	if r.Method == http.MethodGet {
		return failure{methodNotAllowed, err}
	}
	return err
}

// dummySecret is compared if the key is unknown, so that the refusal takes as long.
const dummySecret = "0000000000000000000000000000000000000000000000000000000000000000"

// authenticate identifies the account that signed the request. All refused signatures have the same text.
func (c *call) authenticate(r *http.Request) error {
	refuse := func() error {
		if wait := c.refused.take(clientAddress(r), c.options.Now()); wait > 0 {
			return rateLimited(wait)
		}
		return SignatureRefused.Errorf("%s", SignatureRefused.Title)
	}
	who, key, found, err := c.options.Accounts.ByKey(r.Context(), c.sent.get("apikey"))
	if err != nil {
		return err
	}
	secret := key.Secret.Reveal()
	if !found {
		secret = dummySecret
	}
	good := cloudsign.Verify(secret, c.sent.get("signature"), cloudsign.Params(c.sent))
	if !found || !good || !notExpired(c.sent, c.options.Now(), c.options.EnforcePostAndExpiry) {
		return refuse()
	}
	c.account, c.who = who, auth.Caller(who)
	if err := c.options.Accounts.Use(r.Context(), key.Credential); err != nil {
		return err
	}
	if wait := c.rate.take(who.ID, c.options.Now()); wait > 0 {
		return rateLimited(wait)
	}
	if err := route.Admit(r.Context()); err != nil {
		return err
	}
	if c.options.EnforcePostAndExpiry && r.Method == http.MethodGet && c.command.changes() {
		return PostRequired.Errorf("%s: it changes something and was sent by GET", c.command.name)
	}
	return nil
}

func rateLimited(wait time.Duration) error {
	return RateLimited.Errorf("try again in %s", wait.Round(time.Millisecond)).With("retryAfter", int(wait/time.Second)+1)
}

func clientAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// writeAudit writes a changing call into the audit trail. Calls of unknown callers leave no entry: they changed nothing.
func (c *call) writeAudit(ctx context.Context, err error) {
	if c.command == nil || !c.command.changes() || c.account.ID == "" {
		return
	}
	e := account.Entry{
		At: c.options.Now(), Who: c.account.Name, Account: c.account.ID, Domain: c.account.DomainID,
		API: Path, Call: c.command.name, Target: c.target, Outcome: account.OK,
	}
	if err != nil {
		e.Outcome = string(fault.Of(err).Code)
	}
	if err := c.options.Accounts.Store.Note(context.WithoutCancel(ctx), e); err != nil {
		c.options.Logger.Error("a call could not be written into the audit trail", "call", e.Call, "who", e.Who, "error", err)
	}
}

// errorBody is the body of an error answer.
type errorBody struct {
	UUIDs  []string `json:"uuidList"`
	Code   int      `json:"errorcode"`
	Detail int      `json:"cserrorcode,omitempty"`
	Text   string   `json:"errortext"`
}

// writeError answers a failed request and returns its code.
func (c *call) writeError(w http.ResponseWriter, r *http.Request, err error) int {
	body := c.errorOf(err)
	if after, ok := fault.Details(err)["retryAfter"].(int); ok {
		w.Header().Set("Retry-After", strconv.Itoa(after))
	}
	if body.Code == methodNotAllowed {
		w.Header().Set("Allow", "POST")
	}
	if body.Code == 530 {
		c.options.Logger.Error("a request failed", "command", c.name, "code", fault.Of(err).Code, "error", err)
	}
	c.write(w, r, body.Code, body)
	return body.Code
}

// errorOf returns the body of an error: the command, the message and the remedy.
func (c *call) errorOf(err error) errorBody {
	var own failure
	code := codeOf(err)
	if errors.As(err, &own) {
		code, err = own.code, own.err
	}
	kind := fault.Of(err)
	text := textFor(kind.Code, fault.Message(err), c.who.Operator)
	switch {
	case kind == SignatureRefused: // the same text for every command
		text = kind.Title
	case c.command == nil || strings.HasPrefix(text, c.command.name):
	default:
		text = c.command.name + ": " + c.withParameter(kind, code, err, text)
	}
	return errorBody{UUIDs: []string{}, Code: code, Detail: detailCodes[code], Text: strings.TrimSuffix(text, ".") + ". " + kind.Remedy}
}

// withParameter puts the parameter of a fault before its text. For an unknown or
// removed id it uses the text that clients recognize.
func (c *call) withParameter(kind *fault.Kind, code int, err error, text string) string {
	name := c.faultParameter(err)
	removed := kind == cluster.StateRefused && code == 431 && c.values.has("id")
	switch {
	case removed:
		return notFoundText("id", c.values.text["id"]) + ": " + text
	case name != "" && (kind == cluster.NotFound || kind == cluster.JobNotFound):
		return notFoundText(name, c.sent.get(name)) + ": " + text
	case name != "":
		return "parameter " + name + ": " + text
	}
	return text
}

// key returns the only key of an answer.
func (c *call) key() string {
	switch {
	case c.command != nil:
		return strings.ToLower(c.command.name) + "response"
	case strings.EqualFold(c.name, "login"):
		return "loginresponse"
	default:
		return "errorresponse"
	}
}

func (c *call) write(w http.ResponseWriter, _ *http.Request, status int, body any) {
	var data []byte
	var err error
	if list, ok := body.(*clusterPage); ok {
		buffer := pages.Get().(*[]byte)
		data, err = list.encode((*buffer)[:0], c.key())
		defer func(created []byte) {
			if cap(created) <= maxPooled {
				*buffer = created
				pages.Put(buffer)
			}
		}(data)
	} else {
		data, err = encodeJSON(map[string]any{c.key(): body})
	}
	if err != nil {
		status, data = 530, fmt.Appendf(nil, `{%q:{"uuidList":[],"errorcode":530,"cserrorcode":4250,"errortext":"the answer cannot be encoded"}}`, c.key())
		c.options.Logger.Error("an answer cannot be encoded", "command", c.name, "error", err)
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data) // the caller may have disconnected
}

// pages pools the buffers of encoded lists. Buffers larger than maxPooled are not
// pooled.
var pages = sync.Pool{New: func() any { return new([]byte) }}

const maxPooled = 1 << 20

// changes reports whether a command changes something.
func (c *command) changes() bool {
	return !slices.ContainsFunc([]string{"get", "list", "query", "find"}, func(verb string) bool { return strings.HasPrefix(c.name, verb) })
}
