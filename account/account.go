package account

import (
	"strings"
	"time"
)

// Role is what an account may do; each role includes the previous ones.
type Role string

// The roles.
const (
	User        Role = "user"         // its own clusters
	DomainAdmin Role = "domain-admin" // also those of its domain and the domains below
	Operator    Role = "operator"     // also everything else
)

// rank orders roles; 0 is none of them.
func (r Role) rank() int {
	switch r {
	case User:
		return 1
	case DomainAdmin:
		return 2
	case Operator:
		return 3
	default:
		return 0
	}
}

// Valid reports whether r is one of the three roles.
func (r Role) Valid() bool { return r.rank() > 0 }

// The two records that every new store contains.
const (
	RootID   = "00000000-0000-4000-8000-000000000001" // the domain ROOT
	SystemID = "00000000-0000-4000-8000-000000000002" // the account operator in ROOT: callers with the operator's own tokens
)

// Root returns the domain above all others.
func Root() Domain { return Domain{ID: RootID, Name: "ROOT", Path: "ROOT"} }

// System returns the account of the operator's own tokens. It cannot be disabled.
func System() Account {
	return Account{ID: SystemID, Name: "operator", DomainID: RootID, Role: Operator, Revision: 1}
}

// Domain is a node in the tree of domains.
type Domain struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Path     string    `json:"path"` // names from ROOT to here, joined by /
	ParentID string    `json:"parent,omitempty"`
	Disabled bool      `json:"disabled"` // accounts in it and below it may not call
	Created  time.Time `json:"created,omitzero"`
}

// Holds reports whether other is this domain or below it.
func (d Domain) Holds(other Domain) bool {
	return d.Path != "" && (other.Path == d.Path || strings.HasPrefix(other.Path, d.Path+"/"))
}

// Account owns clusters and sends requests.
type Account struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"` // unique in its domain
	DomainID string    `json:"domainId"`
	Role     Role      `json:"role"`
	Disabled bool      `json:"disabled"`
	Limits   Limits    `json:"limits,omitzero"`
	Created  time.Time `json:"created,omitzero"`
	Revision int64     `json:"revision"` // compare-and-set; 0: not stored yet
}

// Limits of an account. A zero field is no limit.
type Limits struct {
	Clusters int `json:"clusters,omitempty"`
	Nodes    int `json:"nodes,omitempty"`    // VMs of all its clusters
	Cores    int `json:"cores,omitempty"`    // of all its VMs
	MemoryMB int `json:"memoryMB,omitempty"` // of all its VMs
	Size     int `json:"size,omitempty"`     // workers of one cluster
}

func (l Limits) valid() bool {
	return l.Clusters >= 0 && l.Nodes >= 0 && l.Cores >= 0 && l.MemoryMB >= 0 && l.Size >= 0
}

// Tree maps ids to domains.
type Tree map[string]Domain

// NewTree returns the tree of all domains.
func NewTree(domains []Domain) Tree {
	t := Tree{}
	for _, d := range domains {
		t[d.ID] = d
	}
	return t
}

// Subtree returns the ids of a domain and of all domains below it.
func (t Tree) Subtree(id string) []string {
	top, ok := t[id]
	if !ok {
		return nil
	}
	var ids []string
	for _, d := range t {
		if top.Holds(d) {
			ids = append(ids, d.ID)
		}
	}
	return ids
}

// Active reports whether an account may call: neither the account nor any domain
// from its own up to ROOT is disabled.
func (t Tree) Active(a Account) bool {
	if a.Disabled {
		return false
	}
	for id, steps := a.DomainID, 0; id != ""; steps++ {
		d, ok := t[id]
		if !ok || d.Disabled || steps > len(t) {
			return false
		}
		id = d.ParentID
	}
	return true
}

const maxName = 64

// validName reports whether a name is valid for an account or domain. Names appear
// in paths, URLs and signatures.
func validName(name string) bool {
	if name == "" || len(name) > maxName || strings.Trim(name, "-._@") != name {
		return false
	}
	return !strings.ContainsFunc(name, func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-._@", c))
	})
}
