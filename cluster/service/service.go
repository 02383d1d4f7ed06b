package service

import (
	"context"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/workflow"
)

// Service is the container cluster service.
type Service struct {
	options Options
	engine  Engine
}

// New makes a service. Its flows belong into the engine, which is then given to Bind.
func New(o Options) (*Service, error) { panic("being built") }

// Flows are those of the lifecycle, for workflow.New.
func (s *Service) Flows() []workflow.Flow { panic("being built") }

// Hook wakes clusters when their runs end; it belongs into the engine's hooks.
func (s *Service) Hook() workflow.Hook { panic("being built") }

// Bind gives the service its engine.
func (s *Service) Bind(e Engine) error { panic("being built") }

// Serve walks clusters, synchronises and collects until the context ends.
func (s *Service) Serve(ctx context.Context) error { panic("being built") }

// Hello hears a node. token is its join token or credential.
func (s *Service) Hello(ctx context.Context, token string, h Hello) (HelloAnswer, error) {
	panic("being built")
}

// provider finds a configured provider by name, behind its limits.
func (s *Service) provider(name string) (cluster.Provider, error) { panic("being built") }

// ring makes the walker look at a cluster.
func (s *Service) ring(uuid string) { panic("being built") }

// probe asks the endpoint of a cluster whether it answers.
func (s *Service) probe(ctx context.Context, c *cluster.Cluster) error { panic("being built") }
