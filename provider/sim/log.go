package sim

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

// Verb is the method that a client called.
type Verb string

// The verbs.
const (
	Check   Verb = "check"
	Catalog Verb = "catalog"
	Create  Verb = "create"
	Act     Verb = "act"
	Poll    Verb = "poll"
	Get     Verb = "get"
	Find    Verb = "find"
	List    Verb = "list"
	Edit    Verb = "edit" // of an existing resource: tags, members of a balancer
)

// When reports whether something happens before or after the effect of a call.
type When int

// A rule's default is Before.
const (
	Before When = iota
	After
)

func (w When) String() string {
	if w == After {
		return "after"
	}
	return "before"
}

// Entry is one call of a client.
type Entry struct {
	Seq          int64
	At           time.Time // when it began
	Installation string    // of the client
	Call         Verb
	Kind         cluster.Kind
	Action       cluster.Action // of Act
	Name         string
	ID           string // if known
	Key          string // of Create and Find
	CallID       string
	Job          string
	Cluster      string     // of its tags, or of List
	Fault        string     // the rule that was applied
	Code         fault.Code // of its failure
	Err          string
}

// String returns the entry as one line.
func (e Entry) String() string {
	text := fmt.Sprintf("%s %s %s", e.Call, e.Kind, e.Name)
	if e.Action != "" {
		text = fmt.Sprintf("%s %s %s", e.Action, e.Kind, e.Name)
	}
	if e.Err != "" {
		text += ": " + e.Err
	}
	return text
}

// MutationOp is the kind of a mutation.
type MutationOp string

// The mutations.
const (
	Made      MutationOp = "made"
	Destroyed MutationOp = "destroyed"
	Changed   MutationOp = "changed" // by a method of Cloud, not by a client
)

// Mutation is the creation or deletion of a resource, or a change without a client call.
type Mutation struct {
	Seq          int64
	At           time.Time
	Op           MutationOp
	By           string // "call", or the name of a method of Cloud
	Kind         cluster.Kind
	ID, Name     string
	Identity     string
	Installation string
	Cluster      string
	Foreign      bool
}

// boundedLog keeps the newest entries.
type boundedLog[T any] struct {
	limit   int
	entries []T
	dropped int
}

func (r *boundedLog[T]) add(e T) {
	if r.limit < 0 {
		r.dropped++
		return
	}
	if len(r.entries) >= 2*r.limit {
		r.dropped += len(r.entries) - r.limit
		r.entries = slices.Delete(r.entries, 0, len(r.entries)-r.limit)
	}
	r.entries = append(r.entries, e)
}

func (r *boundedLog[T]) all() []T { return slices.Clone(r.entries) }

// Log is what has happened in the cloud, as far as Options.Log keeps it.
type Log struct {
	mu        *sync.Mutex // that of the world
	calls     boundedLog[Entry]
	mutations boundedLog[Mutation]
}

// Calls returns the calls that the log holds (Options.Log), oldest first.
func (l *Log) Calls() []Entry {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls.all()
}

// Mutations returns the mutations that the log holds (Options.Log), oldest first.
func (l *Log) Mutations() []Mutation {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mutations.all()
}

// Dropped returns how many calls and mutations the log no longer holds.
func (l *Log) Dropped() (calls, mutations int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls.dropped, l.mutations.dropped
}

// ClearLog deletes all logged calls and mutations.
func (l *Log) ClearLog() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls.entries, l.mutations.entries = nil, nil
}
