package postgres

import (
	"testing"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Statements that wait for another server hold up no others.
func TestExecuting(t *testing.T) {
	t.Parallel()
	here, remote := []port.Statement{{SQL: "CREATE ROLE a"}}, []port.Statement{{SQL: "CREATE SUBSCRIPTION s", Remote: true}}
	both := append(remote[:1:1], here...)
	var e executing
	ends := map[string]func(){}
	for n, c := range []struct {
		name       string
		statements []port.Statement
		begins     bool
		end        string // ends before
	}{
		{"subscription", remote, true, ""},
		{"user", here, true, ""},
		{"another user", here, false, ""},
		{"another subscription", remote, false, ""},
		{"both", both, false, "subscription"},
		{"a subscription later", remote, true, ""}, // both has left nothing locked
		{"a user later", here, true, "user"},
		{"none", nil, true, ""},
		{"both, while a user is left", both, false, "a subscription later"},
		{"both later", both, true, "a user later"},
		{"a user after both", here, false, ""},
		{"the last", both, true, "both later"},
	} {
		if c.end != "" {
			ends[c.end]()
		}
		end, ok := e.begin(c.statements)
		if ok != c.begins {
			t.Fatalf("%d %s: begins %t", n, c.name, ok)
		}
		ends[c.name] = end
	}
}
