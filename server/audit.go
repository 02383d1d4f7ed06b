package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/server/route"
)

// audited reports requests that may change something.
func audited(method string, c *route.Call) bool {
	return slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, method) && route.InAPI(c.Path) && !c.Route.ReadOnly
}

// auditTimeout limits the write of an audit entry. The request has been executed and
// holds its slot until the entry is written.
const auditTimeout = 10 * time.Second

// writeAudit writes a changing request into the audit trail after its answer.
// Requests of unknown callers leave no entry: they changed nothing.
func (s *Server) writeAudit(a *responseWriter, r *http.Request, c *route.Call) {
	if s.options.Accounts == nil || c.Who.Name == "" || !audited(r.Method, c) || a.Header().Get("Idempotency-Replayed") != "" {
		return
	}
	e := account.Entry{
		At: time.Now().UTC(), Who: c.Who.Name, Account: c.Who.Account, Domain: c.Who.Domain, API: "/v1",
		Call: r.Method + " " + cmp.Or(c.Route.Path, "?"), Target: cmp.Or(c.Target, c.Path), Outcome: account.OK,
	}
	if e.Account == "" {
		e.Account, e.Domain = account.SystemID, account.RootID
	}
	if status := a.code(); status >= 400 {
		e.Outcome = cmp.Or(string(c.Code), strconv.Itoa(status))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), auditTimeout)
	defer cancel()
	if err := s.options.Accounts.Store.Note(ctx, e); err != nil {
		s.log.Error("a request could not be written into the audit trail", "call", e.Call, "who", e.Who, "error", err)
	}
}
