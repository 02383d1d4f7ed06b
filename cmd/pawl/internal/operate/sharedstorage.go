package operate

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/backups"
	"github.com/pawl-dev/pawl/operator/sharedstorage/kube"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// SharedStorage are the options of the shared-storage operator.
type SharedStorage struct {
	Name          string            // serves the clusters whose spec.operatorName is this; "": all
	Image         string            // of pawl
	Tool          string            // path of pawl in that image
	Images        map[string]string // of engines, by version
	Version       string            // of engines, for clusters that name none; "": the newest of Images
	PoolerImage   string            // of pgbouncer, for clusters that name none; "": kube.DefaultPoolerImage
	User          int64             // that engines run as
	StorageClass  string            // of new claims; "": the default one
	WriterLease   time.Duration
	FailoverAfter time.Duration
}

// storageOperator is the shared-storage operator, for both of its kinds.
type storageOperator struct {
	manager  *controller.Manager
	cache    *controller.Cache
	site     *kube.Placement
	operator *sharedstorage.Operator
	name     string
	mpds     *kube.MPDClusterStore
	backups  *backups.Operator
}

func newStorageOperator(m *controller.Manager, o Options) (*storageOperator, error) {
	s, own := o.SharedStorage, &storageOperator{manager: m, name: o.SharedStorage.Name}
	var err error
	if own.cache, err = kube.NewCache(m); err != nil {
		return nil, err
	}
	client := own.cache.Client()
	own.site, err = kube.NewPlacement(kube.Options{
		Client: client, Live: m.Live(), Image: s.Image, Tool: s.Tool, Images: s.Images, User: s.User,
		PoolerImage: s.PoolerImage, StorageClass: s.StorageClass, Lease: s.WriterLease, FailoverAfter: s.FailoverAfter, Wrap: m.Fence, Log: o.Log,
	})
	if err != nil {
		return nil, err
	}
	clusters := kube.NewClusterStore(client, m.Live())
	own.mpds = kube.NewMPDClusterStore(client, m.Live(), s.Name)
	clusters.Placement, own.mpds.Placement = own.site, own.site
	taken := kube.NewBackupStore(client, m.Live())
	own.operator, err = sharedstorage.New(sharedstorage.Options{
		Secrets: kube.Secrets(m.Live()), Credentials: own.site.Credentials(), Certificates: own.site.Certificates(), Backups: taken,
		Store: clusters, Stores: map[string]sharedstorage.ClusterStore{kube.MPDKind: own.mpds}, Ports: own.site.Ports(), Name: s.Name,
		Version: cmp.Or(s.Version, slices.MaxFunc(slices.Collect(maps.Keys(s.Images)), kube.CompareVersions)),
		Event:   kube.EventWriter(m.Events("sharedstorage")), ClassifyRunError: kube.ClassifyRunError, Logger: o.Log,
	})
	if err != nil {
		return nil, err
	}
	own.backups, err = backups.New(backups.Options{Store: taken, Clusters: clusters, Ports: own.site.Ports(), Repository: own.operator.Repository, Logger: o.Log})
	return own, err
}

// engine returns the engine of both operators.
func (s *storageOperator) engine(store runstore.Store, options workflow.Options) (*workflow.Engine, error) {
	options.Actions = append(options.Actions, s.backups.Actions()...)
	options.Hooks = append(options.Hooks, s.backups.Hook())
	options.Healers = maps.Clone(options.Healers)
	maps.Copy(options.Healers, s.backups.Healers())
	engine, err := s.operator.Engine(store, options)
	if err != nil {
		return nil, err
	}
	flows, err := s.backups.Flows()
	if err == nil {
		err = engine.Load(append(engine.Flows(), flows...))
	}
	return engine, errors.Join(err, s.backups.Bind(engine))
}

// parts are the controllers of both kinds.
func (s *storageOperator) parts(engine *workflow.Engine, workers int) []part {
	c := kube.Controllers{Manager: s.manager, Cache: s.cache, Operator: s.operator, Name: s.name, Placement: s.site, Engine: engine, Workers: workers}
	return []part{
		{"sharedstorage", func() error {
			return errors.Join(c.Setup(), kube.SetupBackups(s.manager, s.cache, s.backups, engine, workers))
		}},
		{"mpd", func() error { return c.SetupMPD(s.mpds) }},
	}
}
