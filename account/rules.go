package account

// Operation is something that an account may do.
type Operation string

// The operations that the rules distinguish.
const (
	UseCluster     Operation = "use cluster"    // read and change it
	CreateCluster  Operation = "create cluster" // for an account
	Forget         Operation = "forget"         // give up resources that could not be deleted
	SeeLeaks       Operation = "see leaks"
	SetGC          Operation = "set gc flag"
	SeeAccount     Operation = "see account"
	ManageAccounts Operation = "make account" // in a domain; disable and enable it
	SetLimits      Operation = "set limits"
	ManageDomains  Operation = "make domain" // below a domain; disable and enable it
	UseKeys        Operation = "use keys"    // create, list and revoke keys and tokens
	SeeTrail       Operation = "see trail"
)

// Operations are all operations.
var Operations = []Operation{UseCluster, CreateCluster, Forget, SeeLeaks, SetGC, SeeAccount, ManageAccounts, SetLimits, ManageDomains, UseKeys, SeeTrail}

// Relation is the relation of the caller to the owner of an object.
type Relation string

// The relations.
const (
	Own       Relation = "own"       // the same account
	Below     Relation = "below"     // another account in its domain or below
	Elsewhere Relation = "elsewhere" // all others
)

// Relate returns the relation of the caller to an owner. Both domains come from the
// tree.
func Relate(tree Tree, caller Account, ownerID, ownerDomain string) Relation {
	switch {
	case caller.ID == ownerID:
		return Own
	case inside(tree, caller.DomainID, ownerDomain):
		return Below
	default:
		return Elsewhere
	}
}

func inside(tree Tree, top, id string) bool {
	t, ok := tree[top]
	d, known := tree[id]
	return ok && known && t.Holds(d)
}

// rules say for each operation how far each role may go: "" not at all, Own, Below
// (includes Own), Elsewhere (includes all).
var rules = map[Operation]map[Role]Relation{
	UseCluster:     {User: Own, DomainAdmin: Below, Operator: Elsewhere},
	CreateCluster:  {User: Own, DomainAdmin: Below, Operator: Elsewhere},
	Forget:         {Operator: Elsewhere},
	SeeLeaks:       {Operator: Elsewhere},
	SetGC:          {Operator: Elsewhere},
	SeeAccount:     {User: Own, DomainAdmin: Below, Operator: Elsewhere},
	ManageAccounts: {DomainAdmin: Below, Operator: Elsewhere},
	SetLimits:      {Operator: Elsewhere},
	ManageDomains:  {DomainAdmin: Below, Operator: Elsewhere},
	UseKeys:        {User: Own, DomainAdmin: Own, Operator: Elsewhere},
	SeeTrail:       {User: Own, DomainAdmin: Below, Operator: Elsewhere},
}

var relationRank = map[Relation]int{Own: 1, Below: 2, Elsewhere: 3}

// May reports whether a role may perform an operation on an owner in this relation.
func May(role Role, op Operation, to Relation) bool {
	far, near := relationRank[rules[op][role]], relationRank[to]
	return near > 0 && near <= far
}

// Visibility says which accounts a caller may see. The zero Visibility is none.
type Visibility struct {
	All       bool
	AccountID string   // one account
	DomainIDs []string // or all accounts of these domains
}

// VisibilityOf returns the visibility of an account for an operation.
func VisibilityOf(tree Tree, a Account, op Operation) Visibility {
	switch rules[op][a.Role] {
	case Elsewhere:
		return Visibility{All: true}
	case Below:
		return Visibility{AccountID: a.ID, DomainIDs: tree.Subtree(a.DomainID)}
	case Own:
		return Visibility{AccountID: a.ID}
	default:
		return Visibility{}
	}
}
