// Package clusters serves container clusters under /v1/clusters: requests to them, their
// nodes, operations, plans and history, and the catalog of the providers.
package clusters

import (
	"context"
	"net/http"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/server/auth"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/server/runs"
)

// Service serves the clusters of a cluster service.
type Service struct {
	Clusters *service.Service // nil: NOT_SERVED
	Runs     *runs.Service
	Callers  auth.Callers
}

// Routes are the routes of clusters, their operations, nodes and catalog.
func (s *Service) Routes() route.Table {
	const all, one = "/v1/clusters", "/v1/clusters/{id}"
	revision := &route.Condition{For: "ETag the change is for; absent: any"}
	changed := []int{404, 409, 412, 422}
	return route.Table{Tag: "clusters", Errors: []int{http.StatusNotImplemented}, Routes: []route.Route{
		{Method: http.MethodGet, Path: all, ID: "listClusters", Role: route.User, Errors: []int{400, 422}, Handle: route.Do(s.list),
			Summary: "List clusters"},
		{Method: http.MethodPost, Path: all, ID: "createCluster", Role: route.User, Idempotent: true, Status: 202, Errors: []int{404, 409, 422}, Handle: route.Do(s.create),
			Summary: "Create a cluster", More: "The cluster is stored before the answer; Location is the operation."},
		{Method: http.MethodGet, Path: one, ID: "getCluster", Role: route.User, Errors: []int{404}, Handle: route.Do(s.get),
			Summary: "Read a cluster"},
		{Method: http.MethodPatch, Path: one, ID: "patchCluster", Role: route.User, Status: 202, Errors: []int{404, 409, 412, 422, 428}, Handle: route.Do(s.patch),
			IfMatch: &route.Condition{For: "ETag the change is for, or *", Required: true},
			Summary: "Change a cluster", More: "A merge patch over size, description, recovery, onFailure and cidrs; operators also gc."},
		{Method: http.MethodDelete, Path: one, ID: "deleteCluster", Role: route.User, Status: 202, Errors: []int{404, 409, 412, 428}, Handle: route.Do(s.delete),
			IfMatch: &route.Condition{For: "ETag the deletion is for, or *", Required: true},
			Summary: "Delete a cluster", More: "It continues without further requests until nothing is left."},
		{Method: http.MethodPost, Path: one + "/start", ID: "startCluster", Role: route.User, Idempotent: true, IfMatch: revision, Status: 202, Errors: changed, Handle: s.request(cluster.RequestStart),
			Summary: "Request that a cluster starts"},
		{Method: http.MethodPost, Path: one + "/stop", ID: "stopCluster", Role: route.User, Idempotent: true, IfMatch: revision, Status: 202, Errors: changed, Handle: s.request(cluster.RequestStop),
			Summary: "Request that a cluster stops"},
		{Method: http.MethodPost, Path: one + "/upgrade", ID: "upgradeCluster", Role: route.User, Idempotent: true, IfMatch: revision, Status: 202, Errors: changed, Handle: s.request(cluster.RequestUpgrade),
			Summary: "Request that a cluster upgrades"},
		{Method: http.MethodPost, Path: one + "/recover", ID: "recoverCluster", Role: route.User, Idempotent: true, IfMatch: revision, Status: 202, Errors: changed, Handle: s.request(cluster.RequestRecover),
			Summary: "Request that a cluster recovers"},
		{Method: http.MethodPost, Path: one + "/scale", ID: "scaleCluster", Role: route.User, Idempotent: true, IfMatch: revision, Status: 202, Errors: changed, Handle: route.Do(s.scale),
			Summary: "Scale a cluster", More: "Exactly one of size, nodes and autoscale."},
		{Method: http.MethodPost, Path: one + "/forget", ID: "forgetCluster", Role: route.Operator, Idempotent: true, Status: 202, Errors: []int{404, 409, 422}, Handle: route.Do(s.forget),
			Summary: "Give up what could not be deleted", More: "For a cluster in Expunge. Nothing is deleted; the remaining resources stay in the leak report."},
		{Method: http.MethodGet, Path: one + "/actions", ID: "clusterActions", Role: route.User, Errors: []int{404}, Handle: route.Do(s.actions),
			Summary: "List the requests that a cluster accepts now, and why not the others"},
		{Method: http.MethodGet, Path: one + "/nodes", ID: "clusterNodes", Role: route.User, Errors: []int{404}, Handle: route.Do(s.nodes),
			Summary: "List the nodes of a cluster"},
		{Method: http.MethodGet, Path: one + "/resources", ID: "clusterResources", Role: route.User, Errors: []int{404}, Handle: route.Do(s.resources),
			Summary: "Read the journal of a cluster"},
		{Method: http.MethodGet, Path: one + "/drift", ID: "clusterDrift", Role: route.User, Errors: []int{404, 503}, Handle: route.Do(s.drift),
			Summary: "Compare desired, recorded and observed", More: "It reads the provider now."},
		{Method: http.MethodGet, Path: one + "/config", ID: "clusterConfig", Role: route.User, Errors: []int{404, 409}, Handle: route.Do(s.config),
			Summary: "Read the access configuration of a cluster", More: "The read is recorded in history."},
		{Method: http.MethodGet, Path: one + "/runs", ID: "clusterRuns", Role: route.User, Errors: []int{404}, Handle: route.Do(s.runs),
			Summary: "List the runs of a cluster"},
		{Method: http.MethodGet, Path: one + "/history", ID: "clusterHistory", Role: route.User, Errors: []int{404}, Handle: route.Do(s.history),
			Summary: "Read the history of a cluster"},
		{Method: http.MethodGet, Path: one + "/logs", ID: "clusterLogs", Role: route.User, Errors: []int{404, 409, 422}, Handle: route.Do(s.logs),
			Summary: "Read the log of a node"},
		{Method: http.MethodGet, Path: "/v1/operations/{id}", ID: "getOperation", Role: route.User, Errors: []int{404}, Handle: route.Do(s.operation),
			Summary: "Read an operation"},
		{Method: http.MethodGet, Path: "/v1/leaks", ID: "listLeaks", Role: route.Operator, Errors: []int{400, 404}, Handle: route.Do(s.leaks),
			Summary: "List what could not be deleted"},
		{Method: http.MethodGet, Path: "/v1/catalog/{kind}", ID: "catalog", Role: route.User, Errors: []int{422}, Handle: route.Do(s.catalog),
			Summary: "List what the providers offer"},
		{Method: http.MethodPost, Path: HeartbeatPath, Role: route.Anyone, Late: true, MaxBody: maxHeartbeat, Handle: route.Raw(s.heartbeat)},
	}}
}

// request handles a request that needs no more than a ChangeBody.
func (s *Service) request(kind cluster.RequestKind) route.Handler {
	return route.Do(func(ctx context.Context, in *struct {
		ClusterPath
		Body *ChangeBody `required:"false"`
	}) (*acceptedAnswer, error) {
		return s.change(ctx, in.ID, in.Body.request(kind))
	})
}
