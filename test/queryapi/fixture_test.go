// Package queryapi tests the query API with existing clients.
package queryapi

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/account"
	"github.com/pawl-dev/pawl/server"
	"github.com/pawl-dev/pawl/server/auth"
	queryapi "github.com/pawl-dev/pawl/server/cloudstack"
	"github.com/pawl-dev/pawl/server/cloudstack/cloudstacktest"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// fixture is a server with the query API, and the key of a user.
type fixture struct {
	url      string
	key      account.Key
	accounts *account.Service
	fake     *cloudstacktest.Fake
}

func newFixture(t *testing.T, enforce bool) *fixture {
	t.Helper()
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	now := func() time.Time { return time.Now().UTC() }
	h := &fixture{accounts: &account.Service{Store: account.NewMemory()}}
	uma, err := h.accounts.CreateAccount(t.Context(), account.System(), account.NewAccount{Name: "uma"})
	if err != nil {
		t.Fatal(err)
	}
	if h.key, err = h.accounts.CreateKey(t.Context(), account.System(), account.NewCredential{Account: uma.ID}); err != nil {
		t.Fatal(err)
	}
	h.fake = cloudstacktest.New(h.accounts.Store, now)
	h.fake.Polls = 2
	engine, err := workflow.New(runstore.NewMemory(), nil, workflow.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	face := queryapi.New(queryapi.Options{Clusters: h.fake, Accounts: h.accounts, EnforcePostAndExpiry: enforce, Logger: quiet})
	s, err := server.New(server.Options{Engine: engine, Reviewer: auth.AccountReviewer{Service: h.accounts}, Logger: quiet,
		Mount: map[string]http.Handler{queryapi.Path: face}})
	if err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(s)
	t.Cleanup(listener.Close)
	h.url = listener.URL + queryapi.Path
	return h
}
