package clusters

import (
	"context"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/cluster/api"
	"github.com/pawl-dev/pawl/cluster/service"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/server/route"
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

// CreateBody describes a cluster to create.
type CreateBody struct {
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

func (b CreateBody) request() api.CreateRequest {
	r := api.CreateRequest{
		Name: b.Name, Description: b.Description, Zone: b.Zone, Offering: b.Offering, Template: b.Template, Network: b.Network, KeyPair: b.KeyPair, DiskGB: b.DiskGB,
		Version: b.Version, Size: b.Size, ControlNodes: b.ControlNodes, Account: b.Account, DomainID: b.DomainID, CIDRs: b.CIDRs,
		OnFailure: cluster.OnFailure(b.OnFailure), Provider: b.Provider,
	}
	if b.Recovery != nil {
		r.Recovery = *b.Recovery
	}
	if b.Registry != nil {
		r.Registry = api.Registry{Username: b.Registry.Username, Password: cluster.Secret(b.Registry.Password), URL: b.Registry.URL, Email: b.Registry.Email}
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

func (b *ChangeBody) request(kind cluster.RequestKind) api.ChangeRequest {
	r := api.ChangeRequest{Kind: kind}
	if b == nil {
		return r
	}
	r.Forced, r.Version, r.Surge, r.Consent, r.Downtime = b.Forced, b.Version, b.Surge, b.Consent, b.Downtime
	if b.Recovery != nil {
		r.Recovery = *b.Recovery
	}
	return r
}

// service returns the cluster service. NOT_SERVED without one.
func (s *Service) service() (*service.Service, error) {
	if s.Clusters == nil {
		return nil, route.NotServed.Errorf("this server runs no container clusters")
	}
	return s.Clusters, nil
}

func (s *Service) accepted(ctx context.Context, c *cluster.Cluster, job *cluster.Job) *acceptedAnswer {
	route.CallOf(ctx).Target = c.UUID // the audit trail uses the uuid in all APIs
	account, domain := s.Clusters.Names(ctx, c.Owner)
	a := &acceptedAnswer{ETag: route.ETag(c.Revision), Body: acceptedBody{Cluster: view.ClusterOf(c, account, domain)}}
	if job != nil {
		operation := view.OperationOf(job)
		a.Location, a.Body.Operation = "/v1/operations/"+job.ID, &operation
	}
	return a
}

// afterCluster is the prefix of a position in the list of clusters: after the cluster
// with this key. The list is in order of creation, so pages neither repeat nor omit a
// cluster when others are created or deleted.
const afterCluster = "behind "

func (s *Service) list(ctx context.Context, in *clusterQuery) (*route.ListOf[view.Cluster], error) {
	clusters, err := s.service()
	if err != nil {
		return nil, err
	}
	after, err := route.ParseNumberCursor(afterCluster, in.Cursor)
	if err != nil {
		return nil, err
	}
	found, total, err := clusters.List(ctx, s.Callers.Of(ctx), cluster.ClusterQuery{
		State: machine.State(in.State), Name: in.Name, Keyword: in.Q, AccountID: in.Account, AfterID: after, Limit: in.Limit + 1,
	})
	if err != nil {
		return nil, err
	}
	out := route.NewList(make([]view.Cluster, 0, len(found)))
	out.Body.Total = total
	if len(found) > in.Limit { // there is another page
		found = found[:in.Limit]
		out.Body.Next = route.NumberCursor(afterCluster, found[in.Limit-1].ID)
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

func (s *Service) create(ctx context.Context, in *struct{ Body CreateBody }) (*acceptedAnswer, error) {
	clusters, err := s.service()
	if err != nil {
		return nil, err
	}
	r := in.Body.request()
	call := route.CallOf(ctx)
	r.JobID, call.Target = call.JobID(), r.Name
	c, job, err := clusters.Create(ctx, s.Callers.Of(ctx), r)
	if err != nil {
		return nil, err
	}
	return s.accepted(ctx, c, job), nil
}

// Record returns a cluster that the caller may see, by its id or unique name.
func (s *Service) Record(ctx context.Context, id string) (*cluster.Record, error) {
	_, record, err := s.record(ctx, id)
	return record, err
}

func (s *Service) record(ctx context.Context, id string) (*service.Service, *cluster.Record, error) {
	clusters, err := s.service()
	if err != nil {
		return nil, nil, err
	}
	record, err := clusters.Get(ctx, s.Callers.Of(ctx), id)
	return clusters, record, api.Hidden(err, id)
}

func (s *Service) get(ctx context.Context, in *struct {
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
	return &clusterAnswer{ETag: route.ETag(record.Cluster.Revision), Body: view.ClusterOfRecord(record, account, domain).With(standings[record.Cluster.UUID])}, nil
}

// change requests a change of the revision in If-Match, or of any without it.
func (s *Service) change(ctx context.Context, id string, r api.ChangeRequest) (*acceptedAnswer, error) {
	clusters, record, err := s.record(ctx, id)
	if err != nil {
		return nil, err
	}
	call := route.CallOf(ctx)
	r.Revision, r.JobID = call.Revision, call.JobID()
	c, job, err := clusters.Change(ctx, s.Callers.Of(ctx), record.Cluster.UUID, r)
	if err != nil {
		return nil, nameCluster(ctx, record.Cluster.UUID, err)
	}
	return s.accepted(ctx, c, job), nil
}

// nameCluster returns the problem of a request to a cluster; it names the cluster.
func nameCluster(ctx context.Context, id string, err error) error {
	p := route.ProblemOf(ctx, api.Hidden(err, id))
	p.Cluster = id
	return p
}

func (s *Service) delete(ctx context.Context, in *struct {
	ClusterPath
	Forced bool `query:"forced" doc:"without waiting for the nodes to drain"`
}) (*acceptedAnswer, error) {
	return s.change(ctx, in.ID, api.ChangeRequest{Kind: cluster.RequestDelete, Forced: in.Forced})
}

func (s *Service) scale(ctx context.Context, in *struct {
	ClusterPath
	Body struct {
		Size      int                `json:"size,omitempty" doc:"workers"`
		Nodes     []string           `json:"nodes,omitempty" doc:"names or ids of the workers to remove"`
		Autoscale *cluster.Autoscale `json:"autoscale,omitempty" doc:"limits of the autoscaler"`
	}
}) (*acceptedAnswer, error) {
	return s.change(ctx, in.ID, api.ChangeRequest{
		Kind: cluster.RequestScale, Size: in.Body.Size, NodeIDs: in.Body.Nodes, Autoscale: in.Body.Autoscale,
	})
}

func (s *Service) forget(ctx context.Context, in *struct {
	ClusterPath
	Body struct {
		Confirm string `json:"confirm" doc:"name of the cluster"`
	}
}) (*acceptedAnswer, error) {
	clusters, record, err := s.record(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	job, err := clusters.Forget(ctx, s.Callers.Of(ctx), record.Cluster.UUID, in.Body.Confirm, route.CallOf(ctx).JobID())
	if err != nil {
		return nil, nameCluster(ctx, record.Cluster.UUID, err)
	}
	return s.accepted(ctx, &record.Cluster, job), nil
}
