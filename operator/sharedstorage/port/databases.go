package port

import (
	"context"
	"time"

	"github.com/pawl-dev/pawl/fault"
)

// DatabaseAdmin is an optional interface of Engine: users, databases and extensions of the writer.
type DatabaseAdmin interface {
	// Databases returns what the engine has. Extensions are those of the named databases only.
	Databases(ctx context.Context, id Ref, extensionsOf []string) (Databases, error)
	// Execute executes statements in their order, as the superuser and each for itself. One that fails
	// does not stop the others. WRITER_UNHEALTHY if the instance does not write. The server logs
	// none of them.
	Execute(ctx context.Context, id Ref, statements []Statement) ([]StatementResult, error)
}

// Databases are the users and databases of an engine.
type Databases struct {
	Users     []User     `json:"users"`     // without those of PostgreSQL itself, which begin with pg_
	Databases []Database `json:"databases"` // without templates
	Available []string   `json:"available"` // extensions that the server has
}

// User is a role.
type User struct {
	Name            string    `json:"name"`
	Login           bool      `json:"login,omitempty"`
	Superuser       bool      `json:"superuser,omitempty"`
	CreateDB        bool      `json:"createdb,omitempty"`
	CreateRole      bool      `json:"createrole,omitempty"`
	Replication     bool      `json:"replication,omitempty"`
	ConnectionLimit int       `json:"connectionLimit"`
	ValidUntil      time.Time `json:"validUntil,omitzero"` // of the password; zero: no end
	InRoles         []string  `json:"inRoles,omitempty"`
	Verifier        string    `json:"verifier,omitempty"` // of the password, as in pg_authid; empty: none
}

// Database is a database.
type Database struct {
	Name       string   `json:"name"`
	Owner      string   `json:"owner,omitempty"`
	Extensions []string `json:"extensions,omitempty"`
}

// Statement is an SQL statement in a database.
type Statement struct {
	Database string `json:"database,omitempty"` // empty: postgres
	SQL      string `json:"sql"`
	What     string `json:"what"` // for people, such as "create user app": it has no secret
	// Remote is set if the statement waits for another server, as CREATE SUBSCRIPTION does for the open transactions
	// there. Statements that wait hold up no others, and should be executed in a call of their own.
	Remote bool `json:"remote,omitempty"`
}

// StatementResult is what became of a statement.
type StatementResult struct {
	State   string `json:"state,omitempty"`   // SQLSTATE; empty: it succeeded
	Message string `json:"message,omitempty"` // of the server, without the statement
}

func declareDatabases(code fault.Code, title, remedy string) *fault.Kind {
	return fault.Declare(fault.Kind{Code: code, Class: fault.Blocked, Title: title, Remedy: remedy, Guide: "shared-storage.md#users-and-databases"})
}

// The faults of users and databases. They stop nothing else of a cluster, and end by themselves when
// their cause does.
var (
	PasswordMissing = declareDatabases("PASSWORD_MISSING", "the password of a user cannot be read",
		"Make the Secret (or the file) that the message names, with a password of printable ASCII characters. It is read at once where its changes are known, otherwise within five minutes; until then the former password stays.")
	DatabasesFailed = declareDatabases("DATABASES_FAILED", "a user, a database or an extension is not as the spec wants it",
		"The message is that of PostgreSQL. Give away what depends on it (REASSIGN OWNED, DROP OWNED), close its connections, or change the spec; it is tried again within five minutes, and at once when the spec changes.")
	ExtensionMissing = declareDatabases("EXTENSION_MISSING", "the server does not have an extension",
		"Use an image of the engine, or a package on the machine, that has it (pg_available_extensions); or take it out of spec.databases.")
)
