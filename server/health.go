package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-dev/pawl/server/route"
)

// Health is the answer of /healthz and /readyz.
type Health struct {
	Status  string `json:"status" enum:"ok"`
	Version string `json:"version,omitempty"`
}

// healthRoutes are the routes of probes and of metrics, which are open on loopback only.
func (s *Server) healthRoutes() route.Table {
	t := route.Table{Tag: "server", Routes: []route.Route{
		{Method: http.MethodGet, Path: "/healthz", ID: "healthz", Role: route.Anyone, Probe: true, Errors: []int{503}, Handle: route.Do(s.healthz),
			Summary: "The process lives"},
		{Method: http.MethodGet, Path: "/readyz", ID: "readyz", Role: route.Anyone, Probe: true, Errors: []int{503}, Handle: route.Do(s.readyz),
			Summary: "The server can do its work"},
	}}
	if s.options.Metrics != nil {
		role := route.Anyone
		if !s.loopback {
			role = route.Operator
		}
		t.Routes = append(t.Routes, route.Route{Method: http.MethodGet, Path: "/metrics", Role: role, Handle: route.Raw(s.options.Metrics.ServeHTTP)})
	}
	s.api.OpenAPI().AddOperation(&huma.Operation{OperationID: "metrics", Method: http.MethodGet, Path: "/metrics", Summary: "Metrics in the format of Prometheus", Tags: []string{t.Tag},
		Description: "Open on loopback; elsewhere it needs an operator's token.", Responses: map[string]*huma.Response{"200": {
			Description: "OK", Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}},
		}}})
	return t
}

func (s *Server) healthz(context.Context, *struct{}) (*route.One[Health], error) {
	return route.OneOf(Health{Status: "ok", Version: s.options.Version}, nil)
}

func (s *Server) readyz(ctx context.Context, _ *struct{}) (*route.One[Health], error) {
	if err := s.ready(ctx); err != nil {
		return nil, route.NotReady.Errorf("%w", err)
	}
	return s.healthz(ctx, nil)
}

// ready returns the error of the engine's or of the configured health check.
func (s *Server) ready(ctx context.Context) error {
	if err := s.options.Engine.Health(); err != nil {
		return err
	}
	if s.options.Health == nil {
		return nil
	}
	return s.options.Health(ctx)
}
