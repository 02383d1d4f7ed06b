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

// Create stores a cluster and its job; the walker starts it. With a known
// JobID and the same request it gives the same answer.
func (s *Service) Create(ctx context.Context, who cluster.Caller, r CreateRequest) (*cluster.Cluster, *cluster.Job, error) {
	panic("being built")
}

// Change asks for a change of a cluster.
func (s *Service) Change(ctx context.Context, who cluster.Caller, uuid string, r ChangeRequest) (*cluster.Cluster, *cluster.Job, error) {
	panic("being built")
}

// Patch changes settings; a new size is a scale, whose job is given.
func (s *Service) Patch(ctx context.Context, who cluster.Caller, uuid string, r PatchRequest) (*cluster.Cluster, *cluster.Job, error) {
	panic("being built")
}

// Forget gives up what a cluster in Expunge could not delete. confirm is its name.
func (s *Service) Forget(ctx context.Context, who cluster.Caller, uuid, confirm, jobID string) (*cluster.Job, error) {
	panic("being built")
}

// PlanCreate and PlanChange say what a request would do. Nothing is stored.
func (s *Service) PlanCreate(ctx context.Context, who cluster.Caller, r CreateRequest) (*Plan, error) {
	panic("being built")
}

// PlanChange is PlanCreate for a change.
func (s *Service) PlanChange(ctx context.Context, who cluster.Caller, uuid string, r ChangeRequest) (*Plan, error) {
	panic("being built")
}

// Get gives the book of a cluster the caller may see: by uuid, or by name where that is one of a kind.
func (s *Service) Get(ctx context.Context, who cluster.Caller, id string) (*cluster.Book, error) {
	panic("being built")
}

// List gives clusters within the query and the caller's scope.
func (s *Service) List(ctx context.Context, who cluster.Caller, q cluster.ClusterQuery) ([]cluster.Cluster, int, error) {
	panic("being built")
}

// Drift looks at a cluster now.
func (s *Service) Drift(ctx context.Context, who cluster.Caller, uuid string) (*DriftReport, error) {
	panic("being built")
}

// Config gives how a cluster is reached, and notes in history that it was given.
func (s *Service) Config(ctx context.Context, who cluster.Caller, uuid string) (*Config, error) {
	panic("being built")
}

// Logs gives the newest lines a node wrote. node: a name or id.
func (s *Service) Logs(ctx context.Context, who cluster.Caller, uuid, node string, lines int) (string, error) {
	panic("being built")
}

// Leaks lists leaked, forgotten and overdue resources. Operators only. cluster and kind may be empty.
func (s *Service) Leaks(ctx context.Context, who cluster.Caller, uuid string, kind cluster.Kind, offset, limit int) ([]Leak, int, error) {
	panic("being built")
}

// Job gives a job the caller may see, Jobs all of them.
func (s *Service) Job(ctx context.Context, who cluster.Caller, id string) (*cluster.Job, error) {
	panic("being built")
}

// Jobs lists jobs within the caller's scope.
func (s *Service) Jobs(ctx context.Context, who cluster.Caller, q cluster.JobQuery) ([]cluster.Job, int, error) {
	panic("being built")
}

// Events gives history within the caller's scope.
func (s *Service) Events(ctx context.Context, who cluster.Caller, q cluster.EventQuery) ([]cluster.Event, error) {
	panic("being built")
}

// Catalog lists what the providers offer the caller.
func (s *Service) Catalog(ctx context.Context, who cluster.Caller, kind cluster.Kind) ([]cluster.Entry, error) {
	panic("being built")
}

// Versions are those of the configuration.
func (s *Service) Versions() []Version { return s.options.Versions }

// Details of a cluster: its owner's user name and registry; secrets print as stars.
func (s *Service) Details(ctx context.Context, who cluster.Caller, uuid string) (*cluster.Details, error) {
	panic("being built")
}

// Names gives account and domain name of an owner.
func (s *Service) Names(ctx context.Context, o cluster.Owner) (account, domain string) {
	panic("being built")
}

// Hello hears a node. token is its join token or credential.
func (s *Service) Hello(ctx context.Context, token string, h Hello) (HelloAnswer, error) {
	panic("being built")
}

// Banners are what operators must know of each provider: unreachable, refused credentials.
func (s *Service) Banners() map[string]string { panic("being built") }
