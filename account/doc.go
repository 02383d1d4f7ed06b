// Package account knows who may ask for what: domains, accounts, their tokens
// and keys, the rules of visibility, and the audit trail.
//
//	operator ─┐                 ┌─ Token: bearer of /v1; only its hash is kept
//	dom.admin ├─ Account ───────┤
//	user ─────┘     │           └─ Key: signs requests of /client/api; its secret is sealed in the store
//	             Domain ─ Domain   a tree: ROOT, ROOT/dev, ROOT/dev/web
//
// May is the whole judgement (containercluster.md, section 9), a table over
// role, operation and relation. Store keeps the records; accounttest is its
// exam. Desk is what faces call: it gathers, asks May, and writes.
package account
