// Package cloudstack makes container clusters at an infrastructure that speaks
// the CloudStack API.
//
// The client keeps nothing that matters: what a call has made is found again by
// its call id (where the server takes customjobid), by name and by tags. Things
// without a name of their own, which are addresses and rules, carry it as a tag.
//
//	Create   lookup ─▶ deploy… (customjobid = call id) ─▶ createTags ─▶ Call{Job: "job,tagging"}
//	Poll     queryAsyncJobResult of each job in turn
//	Get      list by id; ErrGone only if nothing is listed (or 431) and another signed call works
//
// Key pairs are the owners' own: a cluster names one that is there. This client
// registers none, for nobody gives it a public key.
//
// The key should belong to an admin or a domain admin: a plain user does not see
// VMs that are destroyed and not expunged, and they would look gone.
package cloudstack
