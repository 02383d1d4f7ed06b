package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/library"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/machine/driver"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/backups"
	"github.com/pawl-dev/pawl/operator/sharedstorage/local"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
	"github.com/pawl-dev/pawl/workflow"
)

// SharedStorage says where clusters on shared storage are, as folders and
// processes of this machine.
type SharedStorage struct {
	Dir string
	// Optional leaves them out, with a line in the log, where the loaded files
	// define a machine of their kind. Else the server does not start.
	Optional bool
}

// LocalSharedStorage is what pawl dev has: a folder beside the store, or in
// /var/lib/pawl where the user who runs PostgreSQL for root cannot enter that.
// nil, with a line in the log, where PostgreSQL is missing.
func LocalSharedStorage(store string, log *slog.Logger) *SharedStorage {
	versions, err := local.Installed()
	if err != nil || len(versions) == 0 {
		log.Warn("clusters on shared storage are off: PostgreSQL's server programs are missing; install them (apt-get install postgresql) and start again", "error", err)
		return nil
	}
	as, err := postgres.Runner("")
	if err != nil {
		log.Warn("clusters on shared storage are off", "error", err)
		return nil
	}
	if store, err = filepath.Abs(store); err != nil {
		log.Warn("clusters on shared storage are off", "error", err)
		return nil
	}
	dir := filepath.Join(filepath.Dir(store), "shared-storage")
	if postgres.Reachable(dir, as) != nil {
		sum := sha256.Sum256([]byte(store)) // each store has clusters of its own
		dir = filepath.Join("/var/lib/pawl/shared-storage", hex.EncodeToString(sum[:4]))
	}
	return &SharedStorage{Dir: dir, Optional: true}
}

// SharedStorageClash is the fault of files that define what the server brings
// itself. Flows of the same names are none: those here serve clusters alone.
var SharedStorageClash = fault.Declare(fault.Kind{
	Code: "SHARED_STORAGE_CLASH", Class: fault.Invalid,
	Title:  "the files define a machine for clusters on shared storage, which bring their own",
	Remedy: "Rename the kind of that machine, or serve it without --shared-storage.",
})

// shared are the parts of clusters on shared storage.
type shared struct {
	operator *sharedstorage.Operator // nil: this server has none
	flows    []workflow.Flow
	store    local.ClusterStore

	backups *backups.Operator
	taken   local.BackupStore
}

func (p *parts) makeShared(lib library.Library) error {
	config := p.options.SharedStorage
	if config == nil {
		return nil
	}
	placement, err := local.Open(local.Options{Dir: config.Dir})
	if err != nil {
		return err
	}
	created := shared{store: local.ClusterStore{Objects: p.objects, Placement: placement}, taken: local.BackupStore{Objects: p.objects}}
	created.operator, err = sharedstorage.New(sharedstorage.Options{Store: created.store, Ports: placement.Ports(), Secrets: local.Secret, Credentials: placement.Credentials(), Certificates: placement.Certificates(), Backups: created.taken, Logger: p.log})
	if err != nil {
		return err
	}
	created.backups, err = backups.New(backups.Options{Store: created.taken, Clusters: created.store, Ports: placement.Ports(), Repository: created.operator.Repository, Logger: p.log})
	if err != nil {
		return err
	}
	if created.flows, err = created.operator.Flows(); err != nil {
		return err
	}
	for i := range created.flows { // files may define flows of these names for objects of their own
		created.flows[i].Kind = sharedstorage.Kind
	}
	more, err := created.backups.Flows()
	if err != nil {
		return err
	}
	created.flows = append(created.flows, more...)
	switch err := created.refuseClash(lib); {
	case err != nil && config.Optional:
		p.log.Warn("clusters on shared storage are off: "+fault.Message(err), "remedy", SharedStorageClash.Remedy)
		return nil
	case err != nil:
		return err
	}
	p.shared = created
	return nil
}

// serveShared works on the clusters.
func (p *parts) serveShared(ctx context.Context) error {
	return local.Controller{Operator: p.shared.operator, Objects: p.objects, Touch: p.engine.Touch, Metrics: p.queues, Log: p.log}.Serve(ctx)
}

// serveBackups works on their backups.
func (p *parts) serveBackups(ctx context.Context) error {
	return local.Controller{Kind: backups.Kind, Operator: p.shared.backups, Objects: p.objects, Touch: p.engine.Touch, Metrics: p.queues, Log: p.log}.Serve(ctx)
}

// bind gives both operators their engine.
func (s shared) bind(engine *workflow.Engine) error {
	if s.operator == nil {
		return nil
	}
	return errors.Join(s.operator.Bind(engine), s.backups.Bind(engine))
}

// hooks wake the operators when their runs move.
func (s shared) hooks() []workflow.Hook {
	if s.operator == nil {
		return nil
	}
	return []workflow.Hook{s.operator.Hook(), s.backups.Hook()}
}

// kinds are the kinds of both operators.
func (s shared) kinds() []driver.ServedKind {
	if s.operator == nil {
		return nil
	}
	cluster, backup := s.operator.Table().Graph(), s.backups.Table().Graph()
	return []driver.ServedKind{{Kind: sharedstorage.Kind, Machine: cluster.Name, Plan: s.plan, Graph: &cluster}, {Kind: backups.Kind, Machine: backup.Name, Plan: s.planBackup, Graph: &backup}}
}

func (s shared) planBackup(ctx context.Context, o control.Object) (machine.Plan, error) {
	b, err := s.taken.Of(o)
	if err != nil {
		return machine.Plan{}, machine.PositionInvalid.Errorf("%w", err)
	}
	return s.backups.PlanFor(ctx, b)
}

// refuseClash refuses files that define what the server brings itself.
func (s shared) refuseClash(lib library.Library) error {
	if s.operator == nil {
		return nil
	}
	for _, m := range lib.Machines {
		if s.serves(m.Table.Kind) {
			return SharedStorageClash.Errorf("the files define the machine %s of kind %s", m.Table.Name, m.Table.Kind)
		}
	}
	return nil
}

func (s shared) serves(kind string) bool {
	return s.operator != nil && (kind == sharedstorage.Kind || kind == backups.Kind)
}

func (s shared) actions(all []workflow.Action) []workflow.Action {
	if s.operator == nil {
		return all
	}
	return slices.Concat(all, s.operator.Actions(), s.backups.Actions())
}

func (s shared) healers(loaded map[fault.Code]workflow.Healer) map[fault.Code]workflow.Healer {
	if s.operator == nil {
		return loaded
	}
	all := map[fault.Code]workflow.Healer{}
	maps.Copy(all, loaded)
	maps.Copy(all, s.operator.Healers())
	maps.Copy(all, s.backups.Healers())
	return all
}

// object reads clusters as their operator shows them, and all else as before.
func (s shared) object(other func(context.Context, string) (json.RawMessage, error)) func(context.Context, string) (json.RawMessage, error) {
	if s.operator == nil {
		return other
	}
	return func(ctx context.Context, subject string) (json.RawMessage, error) {
		if strings.HasPrefix(subject, sharedstorage.Kind+"/") {
			return s.operator.Object(ctx, subject)
		}
		return other(ctx, subject)
	}
}

func (s shared) admit(objects control.Objects) control.Objects {
	if s.operator == nil {
		return objects
	}
	return local.Admit(objects)
}

// plan is that of the kind.
func (s shared) plan(ctx context.Context, o control.Object) (machine.Plan, error) {
	c, err := s.store.Of(o)
	if err != nil {
		return machine.Plan{}, machine.PositionInvalid.Errorf("%w", err)
	}
	return s.operator.PlanFor(ctx, c)
}
