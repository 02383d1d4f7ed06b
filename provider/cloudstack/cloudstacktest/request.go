package cloudstacktest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/provider/sim"
)

// request is one call of a user.
type request struct {
	*Server
	ctx     context.Context
	params  url.Values
	user    User
	command command
	job     string // job id of an asynchronous command
}

const maxPageSize = 500

func (r *request) handle() (answer, error) {
	for p := range strings.FieldsSeq(r.command.params) {
		if name, required := strings.CutSuffix(p, "*"); required && r.get(name) == "" {
			return answer{}, refuse("Unable to execute API command %s due to missing parameter %s", strings.ToLower(r.command.name), name)
		}
	}
	for name, values := range r.params {
		if !strings.HasPrefix(name, rawPrefix) && name != "userdata" && len(values[0]) > 5120 {
			return answer{}, refuse("parameter %s is too long", name)
		}
	}
	if r.command.async {
		r.job = r.get("customjobid")
		switch {
		case r.job == "" || r.o.NoCustomJobID:
			r.job = newID()
		case !isID(r.job):
			return answer{}, refuse("customjobid %s is no UUID", r.job)
		case r.o.Cloud.HasJob(r.job):
			return answer{}, refuse("customjobid %s: this id is already used", r.job)
		}
	}
	return r.command.run(r)
}

func newID() string {
	var b [16]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(err) // it never fails
	}
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func isID(s string) bool {
	if len(s) != 36 {
		return false
	}
	for i := range len(s) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (s[i] == '-') || !dash && strings.IndexByte("0123456789abcdefABCDEF", s[i]) < 0 {
			return false
		}
	}
	return true
}

func (r *request) get(name string) string { return r.params.Get(strings.ToLower(name)) }

func (r *request) number(name string, otherwise int) (int, error) {
	text := r.get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, refuse("Unable to execute API command %s due to invalid value %s for parameter %s", strings.ToLower(r.command.name), text, name)
	}
	return n, nil
}

func (r *request) is(name string, otherwise bool) bool {
	switch strings.ToLower(r.get(name)) {
	case "true":
		return true
	case "false":
		return false
	default:
		return otherwise
	}
}

func (r *request) texts(name string) []string {
	if r.get(name) == "" {
		return nil
	}
	all := strings.Split(r.get(name), ",")
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// pairs parses a map: p[0].key=…&p[0].value=….
func (r *request) pairs(name string) (map[string]string, error) {
	all := map[string]string{}
	for p := range r.params {
		rest, found := strings.CutPrefix(p, strings.ToLower(name)+"[")
		if !found {
			continue
		}
		index, field, found := strings.Cut(rest, "].")
		if _, err := strconv.Atoi(index); err != nil || !found {
			return nil, &failure{430, 4350, "bad index of " + name}
		}
		if field == "key" {
			all[r.params.Get(p)] = r.get(name + "[" + index + "].value")
		}
	}
	return all, nil
}

// owner returns the owner of new resources: the caller or, for admins, the given account.
func (r *request) owner() (cluster.Owner, error) {
	account, domain := r.get("account"), r.get("domainid")
	switch {
	case account == "":
		return r.user.owner(), nil
	case domain == "":
		return cluster.Owner{}, refuse("account needs domainid")
	case !r.user.Admin && (account != r.user.Account || domain != r.user.DomainID):
		return cluster.Owner{}, &failure{531, 4365, "The account is not yours."}
	}
	return cluster.Owner{AccountID: account, DomainID: domain}, nil
}

// query returns the query of the parameters that all lists share.
func (r *request) query(kind cluster.Kind) (sim.Query, error) {
	q := sim.Query{Kind: kind, ID: r.get("id"), Zone: r.get("zoneid")}
	var err error
	if q.Tags, err = r.pairs("tags"); err != nil {
		return q, err
	}
	if q.ID != "" && !isID(q.ID) {
		return q, invalidID(r.command.name, q.ID)
	}
	if !r.user.Admin || !r.is("listall", false) || r.get("account") != "" {
		if q.Owner, err = r.owner(); err != nil {
			return q, err
		}
	}
	if r.user.Admin && q.ID != "" {
		q.Owner = cluster.Owner{}
	}
	q.Offset, q.Limit, err = r.page()
	return q, err
}

func (r *request) page() (offset, limit int, err error) {
	page, err := r.number("page", 0)
	if err != nil {
		return 0, 0, err
	}
	size, err := r.number("pagesize", 0)
	switch {
	case err != nil:
		return 0, 0, err
	case size == -1 && page == 0:
		return 0, 0, nil
	case (page == 0) != (size == 0):
		return 0, 0, refuse("page and pagesize go together")
	case size > maxPageSize || size < 0:
		return 0, 0, refuse("pagesize %d; %d is the most", size, maxPageSize)
	case page == 0:
		return 0, maxPageSize, nil
	}
	return (max(page, 1) - 1) * size, size, nil
}

func invalidID(command, id string) error {
	return refuse("Unable to execute API command %s due to invalid value. Invalid parameter id value=%s due to incorrect long value format, or entity does not exist or due to incorrect parameter annotation for the field in api cmd class.", strings.ToLower(command), id)
}

// list answers a query. An unknown id returns an empty list for half of the ids, and an
// error for the others: the real API does both.
func (r *request) list(key string, q sim.Query, show func(sim.View) object) (answer, error) {
	found, total, err := r.client.Select(r.ctx, q)
	if err != nil {
		return answer{}, err
	}
	if q.ID != "" && total == 0 && strings.IndexByte("02468ace", q.ID[35]) >= 0 {
		return answer{}, invalidID(r.command.name, q.ID)
	}
	a := answer{key: key, total: total}
	for _, x := range found {
		a.list = append(a.list, show(x))
	}
	return a, nil
}

// resource returns the caller's resource that a parameter names.
func (r *request) resource(kind cluster.Kind, param string) (sim.View, error) {
	q := sim.Query{Kind: kind, ID: r.get(param)}
	if !isID(q.ID) {
		return sim.View{}, invalidID(r.command.name, q.ID)
	}
	found, err := r.lookup(kind, q.ID)
	if err != nil {
		return sim.View{}, err
	}
	if found == nil {
		return sim.View{}, invalidID(r.command.name, q.ID)
	}
	return *found, nil
}

// lookup reads a resource without a logged call.
func (r *request) lookup(kind cluster.Kind, id string) (*sim.View, error) {
	x, ok := r.o.Cloud.LookupView(kind, id)
	switch {
	case !ok:
		return nil, nil
	case !r.user.Admin && x.Owner != r.user.owner():
		return nil, &failure{531, 4365, "Acct does not have permission to operate with this resource."}
	}
	return &x, nil
}

func refuse(format string, args ...any) *failure {
	return &failure{431, 4350, fmt.Sprintf(format, args...)}
}

// failureOf converts an error to an answer of the API; nil: no answer at all.
func (s *Server) failureOf(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	text := fault.Message(err)
	switch kind := fault.Of(err); {
	case errors.Is(err, cluster.ErrGone):
		return refuse("Unable to find it: the entity does not exist")
	case errors.Is(err, context.Canceled), kind == cluster.ProviderUnreachable:
		return nil
	case kind == cluster.ProviderThrottled:
		return &failure{429, 4545, text}
	case kind == cluster.CredentialsRefused:
		return unauthorized
	case s.o.VagueErrors && slices.Contains([]*fault.Kind{cluster.CapacityExhausted, cluster.ResourceInUse}, kind):
		return &failure{530, 4250, "Unable to do this; see the management server's log"}
	case kind == cluster.CapacityExhausted:
		return &failure{533, 4335, text}
	case kind == cluster.QuotaExceeded:
		return &failure{535, 4370, text}
	case kind == cluster.ResourceInUse:
		return &failure{536, 4375, text}
	case kind == cluster.RuleConflict:
		return &failure{537, 4360, text}
	case kind == cluster.ProviderRefused:
		return refuse("%s", text)
	default:
		return &failure{530, 4250, text}
	}
}

func date(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05-0700") }
