// Package foundationdb serves the FoundationDB clusters of a Kubernetes cluster under /v1/foundationdb: list, read,
// explain a group, and hold links of the operator or let a plan of it pass.
package foundationdb

import (
	"context"
	"net/http"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/server/route"
	"github.com/pawl-dev/pawl/view/fdbview"
)

// Source is a Kubernetes cluster with FoundationDB clusters.
type Source interface {
	// List returns a page of clusters without their groups and plans; an empty namespace is the source's own, or all.
	List(ctx context.Context, namespace string, limit int, cursor string) (fdbview.Clusters, error)
	Get(ctx context.Context, ref control.Ref) (fdbview.Detail, error)
	// Explain tells all of a group. With database the database itself is asked, through one of its pods.
	Explain(ctx context.Context, ref control.Ref, group string, database bool) (fdbview.Explanation, error)
	// Hold keeps links from acting, beside those that are held already; none: all links.
	Hold(ctx context.Context, ref control.Ref, links []string) error
	// Release lets held links act again; none: all of them.
	Release(ctx context.Context, ref control.Ref, links []string) error
	// Approve lets the plan with this hash pass once. Another plan is a conflict.
	Approve(ctx context.Context, ref control.Ref, hash string) error
	// Changes tells of changes of a cluster, its backups and its restores until ctx ends; without a name, of all
	// clusters.
	Changes(ctx context.Context, ref control.Ref) <-chan struct{}
}

// Kind is the kind of the clusters.
const Kind = "FoundationDBCluster.apps.foundationdb.org"

// Service serves the clusters of a source.
type Service struct{ Source Source } // nil: NOT_SERVED

// Routes are the routes of FoundationDB clusters.
func (s *Service) Routes() route.Table {
	const one = "/v1/foundationdb/{namespace}/{name}"
	const after = "The answer is the cluster after the write; the operator acts by it in its next pass."
	ask := func(verb, id, summary, more string, handle route.Handler) route.Route {
		return route.Route{Method: http.MethodPost, Path: one + "/" + verb, ID: id, Role: route.Operator, Idempotent: true, Errors: []int{404, 409, 422}, Summary: summary, More: more + " " + after, Handle: handle}
	}
	return route.Table{Tag: "foundationdb", Errors: []int{501}, Routes: []route.Route{
		{Method: http.MethodGet, Path: "/v1/foundationdb", ID: "listFoundationDB", Role: route.Operator, Errors: []int{422}, Handle: route.Do(s.list),
			Summary: "List FoundationDB clusters", More: "Without their groups and plans."},
		{Method: http.MethodGet, Path: one, ID: "getFoundationDB", Role: route.Operator, Errors: []int{404}, Handle: route.Do(s.get),
			Summary: "Read a FoundationDB cluster", More: "Its groups by class and zone, each with the reason for its state; the plan of its operator; its configuration with the stages to the desired one; its backups and restores."},
		{Method: http.MethodGet, Path: one + "/groups/{group}", ID: "explainFoundationDBGroup", Role: route.Operator, Errors: []int{404}, Handle: route.Do(s.explain),
			Summary: "Say why a process group is where it is", More: "Its pod, conditions, exclusion, and what the plan has for it. With database=true also its servers and the gates that it passes through next."},
		ask("hold", "holdFoundationDB", "Keep links of the operator from acting", "What they would do stays in the plan. They are held beside those that are held already.", route.Do(s.hold)),
		ask("release", "releaseFoundationDB", "Let held links act again", "", route.Do(s.release)),
		ask("approve", "approveFoundationDB", "Let exactly this plan pass once", "Another plan has another hash, and is the conflict FDB_PLAN_DIFFERS.", route.Do(s.approve)),
	}}
}

func (s *Service) source() (Source, error) {
	if s.Source == nil {
		return nil, route.NotServed.Errorf("this server has no FoundationDB clusters: pawl console serves those of a Kubernetes cluster")
	}
	return s.Source, nil
}

type listAnswer struct{ Body fdbview.Clusters }

func (s *Service) list(ctx context.Context, in *struct {
	Namespace string `query:"namespace" doc:"only those of this namespace"`
	Limit     int    `query:"limit" minimum:"1" maximum:"500" default:"100"`
	Cursor    string `query:"cursor" doc:"next of the previous page"`
}) (*listAnswer, error) {
	from, err := s.source()
	if err != nil {
		return nil, err
	}
	page, err := from.List(ctx, in.Namespace, in.Limit, in.Cursor)
	if err != nil {
		return nil, route.CursorError(in.Cursor, err)
	}
	if page.Items == nil {
		page.Items = []fdbview.Cluster{}
	}
	return &listAnswer{page}, nil
}

// Path names the cluster of a request.
type Path struct {
	Namespace string `path:"namespace"`
	Name      string `path:"name"`
}

func (p Path) ref() control.Ref { return control.Ref{Kind: Kind, Namespace: p.Namespace, Name: p.Name} }

type oneAnswer struct{ Body fdbview.Detail }

func (s *Service) get(ctx context.Context, in *Path) (*oneAnswer, error) {
	from, err := s.source()
	if err != nil {
		return nil, err
	}
	c, err := from.Get(ctx, in.ref())
	if err != nil {
		return nil, err
	}
	return &oneAnswer{c}, nil
}

type groupAnswer struct{ Body fdbview.Explanation }

func (s *Service) explain(ctx context.Context, in *struct {
	Path
	Group    string `path:"group"`
	Database bool   `query:"database" doc:"ask the database too, by fdbcli in one of its pods"`
}) (*groupAnswer, error) {
	from, err := s.source()
	if err != nil {
		return nil, err
	}
	g, err := from.Explain(ctx, in.ref(), in.Group, in.Database)
	if err != nil {
		return nil, err
	}
	return &groupAnswer{g}, nil
}

type linksInput struct {
	Path
	Body *struct {
		Links []string `json:"links,omitempty" maxItems:"50" doc:"names of links, as the plan has them; absent or empty: all"`
	}
}

func (in *linksInput) links() []string {
	if in.Body == nil {
		return nil
	}
	return in.Body.Links
}

func (s *Service) hold(ctx context.Context, in *linksInput) (*oneAnswer, error) {
	return s.change(ctx, &in.Path, func(from Source) error { return from.Hold(ctx, in.ref(), in.links()) })
}

func (s *Service) release(ctx context.Context, in *linksInput) (*oneAnswer, error) {
	return s.change(ctx, &in.Path, func(from Source) error { return from.Release(ctx, in.ref(), in.links()) })
}

func (s *Service) approve(ctx context.Context, in *struct {
	Path
	Body struct {
		Hash string `json:"hash" minLength:"1" maxLength:"100" doc:"of the plan, as the cluster shows it"`
	}
}) (*oneAnswer, error) {
	return s.change(ctx, &in.Path, func(from Source) error { return from.Approve(ctx, in.ref(), in.Body.Hash) })
}

func (s *Service) change(ctx context.Context, in *Path, write func(Source) error) (*oneAnswer, error) {
	from, err := s.source()
	if err != nil {
		return nil, err
	}
	if err := write(from); err != nil {
		return nil, err
	}
	return s.get(ctx, in)
}
