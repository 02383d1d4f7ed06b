package server

import (
	"context"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/view"
)

// ClusterPath names the cluster of a request.
type ClusterPath struct {
	ID string `path:"id" doc:"id, or a unique name"`
}

type clusterAnswer struct {
	ETag string `header:"ETag"`
	Body view.Cluster
}

// acceptedAnswer is the answer to a change: the cluster, and the operation with its URL.
type acceptedAnswer struct {
	Location string `header:"Location"`
	ETag     string `header:"ETag"`
	Body     acceptedBody
}

type acceptedBody struct {
	Cluster   view.Cluster    `json:"cluster"`
	Operation *view.Operation `json:"operation,omitempty" doc:"absent: the change is complete"`
}

type clusterQuery struct {
	State   string `query:"state" enum:"Created,Starting,Running,Stopping,Stopped,Scaling,Alert,Recovering,Expunging,Expunge,Destroyed" doc:"only this state; destroyed clusters are listed with state=Destroyed only"`
	Name    string `query:"name" doc:"part of the name; case does not matter"`
	Q       string `query:"q" doc:"part of name or description; case does not matter"`
	Account string `query:"account" doc:"id of an account"`
	Limit   int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	Cursor  string `query:"cursor" doc:"next of the previous page"`
}

// createBody describes a cluster to create.
type createBody struct {
	Name         string            `json:"name" maxLength:"255" example:"blue"`
	Description  string            `json:"description,omitempty" maxLength:"4096"`
	Zone         string            `json:"zone" doc:"id or name"`
	Offering     string            `json:"offering" doc:"id or name"`
	Size         int               `json:"size" doc:"workers" example:"2"`
	ControlNodes int               `json:"controlNodes,omitempty" minimum:"1" doc:"odd; default 1"`
	Template     string            `json:"template,omitempty"`
	Network      string            `json:"network,omitempty" doc:"absent: a new one is created"`
	KeyPair      string            `json:"keyPair,omitempty"`
	DiskGB       int               `json:"diskGB,omitempty" minimum:"1" maximum:"65536" doc:"root disk of a node; absent: the template decides"`
	Version      string            `json:"version,omitempty"`
	Provider     string            `json:"provider,omitempty" doc:"absent: that of the zone"`
	Account      string            `json:"account,omitempty" doc:"name of another account; needs domainId"`
	DomainID     string            `json:"domainId,omitempty" doc:"id or path of the account's domain"`
	CIDRs        []string          `json:"cidrs,omitempty" doc:"networks that may reach the endpoint; absent: all"`
	Recovery     *cluster.Recovery `json:"recovery,omitempty" doc:"set of restart, replace, adopt; absent: the default"`
	OnFailure    string            `json:"onFailure,omitempty" enum:"rollback,lazy,keep"`
	Registry     *registryBody     `json:"registry,omitempty" doc:"registry of the nodes' images; all fields or none"`
}

type registryBody struct {
	Username string `json:"username"`
	Password string `json:"password"`
	URL      string `json:"url"`
	Email    string `json:"email"`
}

func (b createBody) request() service.CreateRequest {
	r := service.CreateRequest{
		Name: b.Name, Description: b.Description, Zone: b.Zone, Offering: b.Offering, Template: b.Template, Network: b.Network, KeyPair: b.KeyPair, DiskGB: b.DiskGB,
		Version: b.Version, Size: b.Size, ControlNodes: b.ControlNodes, Account: b.Account, DomainID: b.DomainID, CIDRs: b.CIDRs,
		OnFailure: cluster.OnFailure(b.OnFailure), Provider: b.Provider,
	}
	if b.Recovery != nil {
		r.Recovery = *b.Recovery
	}
	if b.Registry != nil {
		r.Registry = service.Registry{Username: b.Registry.Username, Password: cluster.Secret(b.Registry.Password), URL: b.Registry.URL, Email: b.Registry.Email}
	}
	return r
}

// ChangeBody is the body of a change of a cluster.
type ChangeBody struct {
	Forced   bool              `json:"forced,omitempty" doc:"stop: without waiting for the nodes to drain"`
	Version  string            `json:"version,omitempty" doc:"upgrade: the new version"`
	Surge    int               `json:"surge,omitempty" minimum:"0" doc:"upgrade: nodes added at a time; default 1"`
	Recovery *cluster.Recovery `json:"recovery,omitempty" doc:"recover: for this request only; default restart, replace"`
	Consent  bool              `json:"consent,omitempty" doc:"recover, upgrade: the last control node may be replaced"`
	Downtime bool              `json:"allowDowntime,omitempty" doc:"upgrade: the only control node may be upgraded in place, while the endpoint does not answer"`
}

func (b *ChangeBody) request(kind cluster.RequestKind) service.ChangeRequest {
	r := service.ChangeRequest{Kind: kind}
	if b == nil {
		return r
	}
	r.Forced, r.Version, r.Surge, r.Consent, r.Downtime = b.Forced, b.Version, b.Surge, b.Consent, b.Downtime
	if b.Recovery != nil {
		r.Recovery = *b.Recovery
	}
	return r
}

func (s *Server) clusterRoutes() {
	op := func(id, method, path, summary, description string, status int, errs ...int) huma.Operation {
		return huma.Operation{OperationID: id, Method: method, Path: path, Summary: summary, Description: description, Tags: []string{"clusters"},
			DefaultStatus: status, Errors: append(errs, http.StatusNotImplemented)}
	}
	const base, one = "/v1/clusters", "/v1/clusters/{id}"
	registerRoute(s, op("listClusters", http.MethodGet, base, "List clusters", "", 200, 400, 422), User, s.listClusters)
	registerRoute(s, op("createCluster", http.MethodPost, base, "Create a cluster", "The cluster is stored before the answer; Location is the operation.", 202, 404, 409, 422), User, s.createCluster)
	registerRoute(s, op("getCluster", http.MethodGet, one, "Read a cluster", "", 200, 404), User, s.getCluster)
	registerRoute(s, op("patchCluster", http.MethodPatch, one, "Change a cluster", "A merge patch over size, description, recovery, onFailure and cidrs; operators also gc.", 202, 404, 409, 412, 422, 428), User, s.patchCluster)
	registerRoute(s, op("deleteCluster", http.MethodDelete, one, "Delete a cluster", "It continues without further requests until nothing is left.", 202, 404, 409, 412, 428), User, s.deleteCluster)
	for _, kind := range []cluster.RequestKind{cluster.RequestStart, cluster.RequestStop, cluster.RequestUpgrade, cluster.RequestRecover} {
		registerRoute(s, op(string(kind)+"Cluster", http.MethodPost, one+"/"+string(kind), "Request that a cluster "+string(kind)+"s", "", 202, 404, 409, 412, 422), User,
			func(ctx context.Context, in *struct {
				ClusterPath
				IfMatch string      `header:"If-Match" doc:"ETag the change is for; absent: any"`
				Body    *ChangeBody `required:"false"`
			}) (*acceptedAnswer, error) {
				return s.changeCluster(ctx, in.ID, in.IfMatch, in.Body.request(kind))
			})
	}
	registerRoute(s, op("scaleCluster", http.MethodPost, one+"/scale", "Scale a cluster", "Exactly one of size, nodes and autoscale.", 202, 404, 409, 412, 422), User, s.scaleCluster)
	registerRoute(s, op("forgetCluster", http.MethodPost, one+"/forget", "Give up what could not be deleted", "For a cluster in Expunge. Nothing is deleted; the remaining resources stay in the leak report.", 202, 404, 409, 422), Operator, s.forgetCluster)
	registerRoute(s, op("clusterNodes", http.MethodGet, one+"/nodes", "List the nodes of a cluster", "", 200, 404), User, s.clusterNodes)
	registerRoute(s, op("clusterResources", http.MethodGet, one+"/resources", "Read the journal of a cluster", "", 200, 404), User, s.clusterResources)
	registerRoute(s, op("clusterDrift", http.MethodGet, one+"/drift", "Compare desired, recorded and observed", "It reads the provider now.", 200, 404, 503), User, s.clusterDrift)
	registerRoute(s, op("clusterConfig", http.MethodGet, one+"/config", "Read the access configuration of a cluster", "The read is recorded in history.", 200, 404, 409), User, s.clusterConfig)
	registerRoute(s, op("clusterRuns", http.MethodGet, one+"/runs", "List the runs of a cluster", "", 200, 404), User, s.clusterRuns)
	registerRoute(s, op("clusterHistory", http.MethodGet, one+"/history", "Read the history of a cluster", "", 200, 404), User, s.clusterHistory)
	registerRoute(s, op("clusterLogs", http.MethodGet, one+"/logs", "Read the log of a node", "", 200, 404, 409, 422), User, s.clusterLogs)
	registerRoute(s, op("getOperation", http.MethodGet, "/v1/operations/{id}", "Read an operation", "", 200, 404), User, s.getOperation)
	registerRoute(s, op("listLeaks", http.MethodGet, "/v1/leaks", "List what could not be deleted", "", 200, 400, 404), Operator, s.listLeaks)
	registerRoute(s, op("catalog", http.MethodGet, "/v1/catalog/{kind}", "List what the providers offer", "", 200, 422), User, s.catalog)
	s.mux.HandleFunc("POST "+heartbeatPath, s.heartbeat)
}

// clusters returns the cluster service. NOT_SERVED without one.
func (s *Server) clusters() (*service.Service, error) {
	if s.options.Clusters == nil {
		return nil, NotServed.Errorf("this server runs no container clusters")
	}
	return s.options.Clusters, nil
}

func (s *Server) accepted(ctx context.Context, c *cluster.Cluster, job *cluster.Job) *acceptedAnswer {
	callOf(ctx).target = c.UUID // the audit trail uses the uuid in all APIs
	account, domain := s.options.Clusters.Names(ctx, c.Owner)
	a := &acceptedAnswer{ETag: etag(c.Revision), Body: acceptedBody{Cluster: view.ClusterOf(c, account, domain)}}
	if job != nil {
		operation := view.OperationOf(job)
		a.Location, a.Body.Operation = "/v1/operations/"+job.ID, &operation
	}
	return a
}

// offsetCursor and parseOffset encode a position in a list that grows only at its end.
func offsetCursor(offset int) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(offset)))
}

func parseOffset(cursor string) (int, error) {
	if cursor == "" {
		return 0, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	n, bad := strconv.Atoi(string(text))
	if err != nil || bad != nil || n < 0 {
		return 0, CursorInvalid.Errorf("cursor %q", cursor)
	}
	return n, nil
}

// clusterCursor and parseClusterCursor encode a position in the list of clusters:
// after the cluster with this key. The list is in order of creation, so pages neither
// repeat nor omit a cluster when others are created or deleted.
func clusterCursor(key int64) string {
	return base64.RawURLEncoding.EncodeToString(strconv.AppendInt([]byte("behind "), key, 10))
}

func parseClusterCursor(cursor string) (int64, error) {
	if cursor == "" {
		return 0, nil
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	number, ours := strings.CutPrefix(string(text), "behind ")
	key, bad := strconv.ParseInt(number, 10, 64)
	if err != nil || bad != nil || !ours || key <= 0 {
		return 0, CursorInvalid.Errorf("cursor %q", cursor)
	}
	return key, nil
}

func (s *Server) listClusters(ctx context.Context, in *clusterQuery) (*listOf[view.Cluster], error) {
	clusters, err := s.clusters()
	if err != nil {
		return nil, err
	}
	after, err := parseClusterCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	found, total, err := clusters.List(ctx, s.caller(ctx), cluster.ClusterQuery{
		State: machine.State(in.State), Name: in.Name, Keyword: in.Q, AccountID: in.Account, AfterID: after, Limit: in.Limit + 1,
	})
	if err != nil {
		return nil, err
	}
	out := newList(make([]view.Cluster, 0, len(found)))
	out.Body.Total = total
	if len(found) > in.Limit { // there is another page
		found = found[:in.Limit]
		out.Body.Next = clusterCursor(found[in.Limit-1].ID)
	}
	workers, err := clusters.Workers(ctx, found)
	if err != nil {
		return nil, err
	}
	standings, err := clusters.Explanations(ctx, found)
	if err != nil {
		return nil, err
	}
	names := map[cluster.Owner][2]string{}
	for i := range found {
		owner := found[i].Owner
		if _, known := names[owner]; !known {
			account, domain := clusters.Names(ctx, owner)
			names[owner] = [2]string{account, domain}
		}
		out.Body.Items = append(out.Body.Items, view.ClusterInList(&found[i], workers[found[i].ID], names[owner][0], names[owner][1]).With(standings[found[i].UUID]))
	}
	return out, nil
}

func (s *Server) createCluster(ctx context.Context, in *struct{ Body createBody }) (*acceptedAnswer, error) {
	clusters, err := s.clusters()
	if err != nil {
		return nil, err
	}
	r := in.Body.request()
	r.JobID, callOf(ctx).target = jobID(ctx), r.Name
	c, job, err := clusters.Create(ctx, s.caller(ctx), r)
	if err != nil {
		return nil, err
	}
	return s.accepted(ctx, c, job), nil
}

func (s *Server) record(ctx context.Context, id string) (*service.Service, *cluster.Record, error) {
	clusters, err := s.clusters()
	if err != nil {
		return nil, nil, err
	}
	record, err := clusters.Get(ctx, s.caller(ctx), id)
	return clusters, record, service.Hidden(err, id)
}

func (s *Server) getCluster(ctx context.Context, in *struct {
	ClusterPath
	IfNoneMatch string `header:"If-None-Match" doc:"304 if this is still its ETag"`
}) (*clusterAnswer, error) {
	clusters, record, err := s.record(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	account, domain := clusters.Names(ctx, record.Cluster.Owner)
	standings, err := clusters.Explanations(ctx, []cluster.Cluster{record.Cluster})
	if err != nil {
		return nil, err
	}
	return &clusterAnswer{ETag: etag(record.Cluster.Revision), Body: view.ClusterOfRecord(record, account, domain).With(standings[record.Cluster.UUID])}, nil
}

// changeCluster requests a change of the revision in If-Match, or of any without it.
func (s *Server) changeCluster(ctx context.Context, id, ifMatch string, r service.ChangeRequest) (*acceptedAnswer, error) {
	revision, given, err := revisionOf(ifMatch)
	if err != nil {
		return nil, err
	}
	clusters, record, err := s.record(ctx, id)
	if err != nil {
		return nil, err
	}
	r.Revision, r.JobID = revision, jobID(ctx)
	c, job, err := clusters.Change(ctx, s.caller(ctx), record.Cluster.UUID, r)
	if err != nil {
		return nil, failCluster(ctx, record.Cluster.UUID, given, err)
	}
	return s.accepted(ctx, c, job), nil
}

// failCluster is failMatch for a request to a cluster; the problem names the cluster.
func failCluster(ctx context.Context, id string, conditional bool, err error) error {
	p := problemOf(ctx, service.Hidden(err, id))
	p.Cluster = id
	if conditional && fault.Of(err) == fault.WriteConflict {
		p.Status = http.StatusPreconditionFailed
	}
	return fail(ctx, p)
}

func (s *Server) deleteCluster(ctx context.Context, in *struct {
	ClusterPath
	IfMatch string `header:"If-Match" doc:"ETag the deletion is for, or *"`
	Forced  bool   `query:"forced" doc:"without waiting for the nodes to drain"`
}) (*acceptedAnswer, error) {
	if _, err := requireRevision(in.IfMatch); err != nil {
		return nil, err
	}
	return s.changeCluster(ctx, in.ID, in.IfMatch, service.ChangeRequest{Kind: cluster.RequestDelete, Forced: in.Forced})
}

func (s *Server) scaleCluster(ctx context.Context, in *struct {
	ClusterPath
	IfMatch string `header:"If-Match" doc:"ETag the change is for; absent: any"`
	Body    struct {
		Size      int                `json:"size,omitempty" doc:"workers"`
		Nodes     []string           `json:"nodes,omitempty" doc:"names or ids of the workers to remove"`
		Autoscale *cluster.Autoscale `json:"autoscale,omitempty" doc:"limits of the autoscaler"`
	}
}) (*acceptedAnswer, error) {
	return s.changeCluster(ctx, in.ID, in.IfMatch, service.ChangeRequest{
		Kind: cluster.RequestScale, Size: in.Body.Size, NodeIDs: in.Body.Nodes, Autoscale: in.Body.Autoscale,
	})
}

func (s *Server) forgetCluster(ctx context.Context, in *struct {
	ClusterPath
	Body struct {
		Confirm string `json:"confirm" doc:"name of the cluster"`
	}
}) (*acceptedAnswer, error) {
	clusters, record, err := s.record(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	job, err := clusters.Forget(ctx, s.caller(ctx), record.Cluster.UUID, in.Body.Confirm, jobID(ctx))
	if err != nil {
		return nil, failCluster(ctx, record.Cluster.UUID, false, err)
	}
	return s.accepted(ctx, &record.Cluster, job), nil
}
