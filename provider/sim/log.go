package sim

import (
	"fmt"
	"slices"
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

func (c *Cloud) recordMutation(what MutationOp, by string, t *resource) {
	c.mutations.add(Mutation{
		Seq: c.next(), At: c.o.Now(), Op: what, By: by, Kind: t.Kind, ID: t.ID, Name: t.Name, Identity: t.Identity,
		Installation: t.Installation, Cluster: t.Cluster, Foreign: t.Foreign,
	})
}

// Calls returns the calls that the log holds (Options.Log), oldest first.
func (c *Cloud) Calls() []Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls.all()
}

// Mutations returns the mutations that the log holds (Options.Log), oldest first.
func (c *Cloud) Mutations() []Mutation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mutations.all()
}

// Dropped returns how many calls and mutations the log no longer holds.
func (c *Cloud) Dropped() (calls, mutations int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls.dropped, c.mutations.dropped
}

// ClearLog deletes all logged calls and mutations.
func (c *Cloud) ClearLog() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls.entries, c.mutations.entries = nil, nil
}

// All returns all resources with their user data, in the order of their creation, also
// foreign ones and those not yet visible.
func (c *Cloud) All(kinds ...cluster.Kind) []cluster.Resource {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle(c.o.Now())
	all := make([]*resource, 0, len(c.resources))
	for _, t := range c.resources {
		if len(kinds) == 0 || slices.Contains(kinds, t.Kind) {
			all = append(all, t)
		}
	}
	slices.SortFunc(all, func(a, b *resource) int { return int(a.Seq - b.Seq) })
	resources := make([]cluster.Resource, len(all))
	for i, t := range all {
		resources[i] = t.toCluster()
		resources[i].UserData = slices.Clone(t.UserData)
	}
	return resources
}

// Lookup returns a resource by id or name without a client call. ok is false if there is
// none.
func (c *Cloud) Lookup(kind cluster.Kind, idOrName string) (r cluster.Resource, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settle(c.o.Now())
	t := c.byNameOrID(kind, idOrName)
	if t == nil {
		return r, false
	}
	r = t.toCluster()
	r.UserData = slices.Clone(t.UserData)
	return r, true
}

func (c *Cloud) byNameOrID(kind cluster.Kind, idOrName string) *resource {
	if t, ok := c.resources[idOrName]; ok && (kind == "" || t.Kind == kind) {
		return t
	}
	return c.byName[name{string(kind), idOrName}]
}
