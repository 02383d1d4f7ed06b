// Package cloudstack is the provider for infrastructure with a CloudStack API.
//
// The client keeps no essential state: it finds a created resource by the call id
// (if the server accepts customjobid), by name and by tags. Addresses and rules
// have no names, so their name is a tag.
//
//	Create   lookup ─▶ deploy… (customjobid = call id) ─▶ createTags ─▶ Call{Job: "job,tagging"}
//	Poll     queryAsyncJobResult of each job in turn
//	Get      list by id; ErrGone only if nothing is listed (or 431) and another signed call works
//
// Key pairs belong to the owners: a cluster uses an existing one. The client
// registers none, because it has no public key.
//
// The API key should belong to an admin or a domain admin: other users do not see
// VMs that are destroyed but not expunged, and they would count as gone.
package cloudstack
