// Package account decides who may do what. It holds domains, accounts, their tokens
// and keys, the rules of visibility, and the audit trail.
//
//	operator ─┐                 ┌─ Token: bearer of /v1; only its hash is stored
//	dom.admin ├─ Account ───────┤
//	user ─────┘     │           └─ Key: signs requests of /client/api; the store encrypts its secret
//	             Domain ─ Domain   a tree: ROOT, ROOT/dev, ROOT/dev/web
//
// May is the complete rule: a table over role, operation and relation. Store keeps
// the records; package accounttest is its conformance suite. The APIs call Service:
// it reads, asks May, and writes.
package account
