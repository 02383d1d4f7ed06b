package server

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

func now() time.Time { return time.Now().UTC() }

// Health is the answer of /healthz and /readyz.
type Health struct {
	Status  string `json:"status" enum:"ok"`
	Version string `json:"version,omitempty"`
}

func (s *Server) healthRoutes() {
	tags := []string{"server"}
	health := func(id, path, summary string, check func(context.Context) error) {
		huma.Register(s.api, huma.Operation{OperationID: id, Method: http.MethodGet, Path: path, Summary: summary, Tags: tags,
			Errors: []int{503}, Security: []map[string][]string{}},
			func(ctx context.Context, _ *struct{}) (*struct{ Body Health }, error) {
				callOf(ctx).route = path
				if err := check(ctx); err != nil {
					return nil, fail(ctx, NotReady.Errorf("%w", err))
				}
				return &struct{ Body Health }{Health{Status: "ok", Version: s.options.Version}}, nil
			})
	}
	health("healthz", "/healthz", "The process lives", func(context.Context) error { return nil })
	health("readyz", "/readyz", "The server can do its work", s.ready)
	s.serveDocument()
	if s.options.Metrics != nil {
		s.mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
			callOf(r.Context()).route = "/metrics"
			s.options.Metrics.ServeHTTP(w, r)
		})
	}
	s.api.OpenAPI().AddOperation(&huma.Operation{OperationID: "metrics", Method: http.MethodGet, Path: "/metrics", Summary: "Metrics in the format of Prometheus", Tags: tags,
		Description: "Open on loopback; elsewhere it needs an operator's token.", Responses: map[string]*huma.Response{"200": {
			Description: "OK", Content: map[string]*huma.MediaType{"text/plain": {Schema: &huma.Schema{Type: huma.TypeString}}},
		}}})
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
