package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/account"
)

// audited reports requests that may change something. Plans and heartbeats do not.
func audited(method, path string) bool {
	return slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}, method) &&
		strings.HasPrefix(path, "/v1/") && path != "/v1/plans" && path != heartbeatPath
}

// auditTimeout limits the write of an audit entry. The request has been executed and
// holds its slot until the entry is written.
const auditTimeout = 10 * time.Second

// writeAudit writes a changing request into the audit trail after its answer.
// Requests of unknown callers leave no entry: they changed nothing.
func (s *Server) writeAudit(a *responseWriter, r *http.Request) {
	c := callOf(r.Context())
	if s.options.Accounts == nil || c.who.Name == "" || !audited(r.Method, c.path) || a.Header().Get("Idempotency-Replayed") != "" {
		return
	}
	e := account.Entry{
		At: time.Now().UTC(), Who: c.who.Name, Account: c.who.Account, Domain: c.who.Domain, API: "/v1",
		Call: r.Method + " " + cmp.Or(c.route, "?"), Target: cmp.Or(c.target, c.path), Outcome: account.OK,
	}
	if e.Account == "" {
		e.Account, e.Domain = account.SystemID, account.RootID
	}
	if status := a.code(); status >= 400 {
		e.Outcome = cmp.Or(string(c.code), strconv.Itoa(status))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), auditTimeout)
	defer cancel()
	if err := s.options.Accounts.Store.Note(ctx, e); err != nil {
		s.log.Error("a request could not be written into the audit trail", "call", e.Call, "who", e.Who, "error", err)
	}
}
