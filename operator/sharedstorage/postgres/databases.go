package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

var _ port.DatabaseAdmin = Engine{}

type databasesCall struct {
	ExtensionsOf []string `json:"extensionsOf,omitempty"`
}

type executeCall struct {
	Statements []port.Statement `json:"statements"`
}

// Databases implements port.DatabaseAdmin.
func (e Engine) Databases(ctx context.Context, id port.Ref, extensionsOf []string) (port.Databases, error) {
	return call[port.Databases](ctx, e, id, http.MethodPost, "databases", databasesCall{extensionsOf})
}

// Execute implements port.DatabaseAdmin.
func (e Engine) Execute(ctx context.Context, id port.Ref, statements []port.Statement) ([]port.StatementResult, error) {
	return call[[]port.StatementResult](ctx, e, id, http.MethodPost, "execute", executeCall{statements})
}

// databasesQuery reads roles, databases and available extensions as JSON.
const databasesQuery = `SELECT json_build_object(
	'users', (SELECT coalesce(json_agg(json_build_object('name', rolname, 'login', rolcanlogin, 'superuser', rolsuper, 'createdb', rolcreatedb,
			'createrole', rolcreaterole, 'replication', rolreplication, 'connectionLimit', rolconnlimit, 'verifier', coalesce(rolpassword, ''),
			'validUntil', CASE WHEN isfinite(rolvaliduntil) THEN to_char(rolvaliduntil AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') ELSE '0001-01-01T00:00:00Z' END,
			'inRoles', (SELECT coalesce(json_agg(r.rolname ORDER BY r.rolname), '[]') FROM pg_auth_members m JOIN pg_roles r ON r.oid = m.roleid WHERE m.member = u.oid)) ORDER BY rolname), '[]')
		FROM pg_authid u WHERE rolname !~ '^pg_' AND rolname <> '` + superuser + `'),
	'databases', (SELECT coalesce(json_agg(json_build_object('name', datname, 'owner', pg_get_userbyid(datdba)) ORDER BY datname), '[]')
		FROM pg_database WHERE NOT datistemplate AND datname <> 'postgres'),
	'available', (SELECT coalesce(json_agg(name ORDER BY name), '[]') FROM pg_available_extensions))::text`

func (a *Agent) callDatabases(ctx context.Context, in databasesCall) (port.Databases, error) {
	var found port.Databases
	if !a.engine().Running() {
		return found, port.WriterUnhealthy.Errorf("the engine of instance %s does not run", a.name)
	}
	var text string
	if err := a.inDatabase(ctx, "", func(c *pgx.Conn) error { return c.QueryRow(ctx, databasesQuery).Scan(&text) }); err != nil {
		return found, err
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		return found, err
	}
	for n := range found.Databases {
		d := &found.Databases[n]
		for _, name := range in.ExtensionsOf {
			if name != d.Name {
				continue
			}
			err := a.inDatabase(ctx, name, func(c *pgx.Conn) error {
				return c.QueryRow(ctx, "SELECT coalesce(json_agg(extname ORDER BY extname), '[]')::text FROM pg_extension").Scan(&text)
			})
			if err == nil {
				err = json.Unmarshal([]byte(text), &d.Extensions)
			}
			if err != nil {
				return found, fmt.Errorf("the extensions of database %s: %w", name, err)
			}
		}
	}
	return found, nil
}

// executeLimit is the time for the statements of one call. They go on when the caller has gone away.
const executeLimit = time.Minute

// executing lets one call at a time execute statements, and one at a time those that wait for another server: CREATE
// SUBSCRIPTION, behind a long transaction there, holds up no user.
type executing struct{ here, remote sync.Mutex }

// begin reports whether statements may be executed now. The caller calls end after them.
func (e *executing) begin(statements []port.Statement) (end func(), ok bool) {
	var held []*sync.Mutex
	end = func() {
		for _, m := range held {
			m.Unlock()
		}
	}
	remote := func(s port.Statement) bool { return s.Remote }
	for m, needed := range map[*sync.Mutex]bool{
		&e.here:   slices.ContainsFunc(statements, func(s port.Statement) bool { return !s.Remote }),
		&e.remote: slices.ContainsFunc(statements, remote),
	} {
		switch {
		case !needed:
		case !m.TryLock():
			end()
			return nil, false
		default:
			held = append(held, m)
		}
	}
	return end, true
}

// callExecute executes the statements of the operator. Only the writer does.
func (a *Agent) callExecute(ctx context.Context, in executeCall) ([]port.StatementResult, error) {
	end, ok := a.executing.begin(in.Statements)
	if !ok {
		return nil, errors.New("the statements of an earlier call are still being executed")
	}
	defer end()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), executeLimit)
	defer cancel()
	results := make([]port.StatementResult, 0, len(in.Statements))
	for _, s := range in.Statements {
		if _, writes := a.lease.Writing(); !writes {
			return nil, port.WriterUnhealthy.Errorf("instance %s does not write", a.name)
		}
		err := a.inDatabase(ctx, s.Database, func(c *pgx.Conn) error {
			if _, err := c.Exec(ctx, "SET search_path = public"); err != nil { // where CREATE EXTENSION puts it
				return err
			}
			_, err := c.Exec(ctx, s.SQL)
			return err
		})
		var said *pgconn.PgError
		switch {
		case errors.As(err, &said):
			message := said.Message
			if said.Detail != "" {
				message += " (" + said.Detail + ")"
			}
			a.log.Warn("a statement of the operator failed", "what", s.What, "sqlstate", said.Code, "err", message)
			results = append(results, port.StatementResult{State: said.Code, Message: message})
		case err != nil:
			return nil, fmt.Errorf("%s: %w", s.What, err)
		default:
			a.log.Info("a statement of the operator", "what", s.What)
			results = append(results, port.StatementResult{})
		}
	}
	return results, nil
}

// inDatabase opens a session of its own in a database of the running engine. What it does appears in no
// log and no view, because statements have passwords and verifiers of them.
func (a *Agent) inDatabase(ctx context.Context, database string, do func(*pgx.Conn) error) error {
	c, err := socket(ctx, a.srv.path(runName), a.cfg.Port, database)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = c.Close(closing) // the engine ends it otherwise
	}()
	if _, err := c.Exec(ctx, quietly); err != nil {
		return err
	}
	return do(c)
}

// quietly makes a session that nobody can read along, and that finds no function of the owner of its
// database in place of PostgreSQL's.
const quietly = `SET search_path = pg_catalog; SET track_activities = off; SET log_statement = 'none'; SET log_min_duration_statement = -1; SET log_min_duration_sample = -1;
SET log_transaction_sample_rate = 0; SET log_min_error_statement = 'panic'; SET pg_stat_statements.track = 'none'; SET pg_stat_statements.track_utility = off;
SET default_transaction_read_only = off; SET lock_timeout = '10s'`
