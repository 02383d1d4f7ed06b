package kube

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/transport"
)

// Options of a Placement. Client and Image are required.
type Options struct {
	// Client writes, and reads what may be slightly out of date.
	Client client.Client
	// Live reads from the API server. nil: Client.
	Live client.Reader
	// Image has pawl as its entry point. Cluster managers and the init container of each instance
	// use it.
	Image string
	// Tool is the path of pawl in Image. Default: /usr/local/bin/pawl.
	Tool string
	// Images by version of the engine, for clusters that name no image. Default: postgres:15.
	Images map[string]string
	// PoolerImage has pgbouncer in its PATH, for clusters that name no image of their poolers. Default:
	// DefaultPoolerImage.
	PoolerImage string
	// ForeignImages says that another operator with other Images creates the instances, so Check
	// does not check versions.
	ForeignImages bool
	// User is the uid of the engines, which the images must know by a name. Default: 999, which is
	// postgres in the images of that name.
	User int64
	// StorageClass of new claims; empty: the default one.
	StorageClass string
	// Lease is the duration of a writer's lease. Default: 7 s, so that a frozen writer costs less than
	// 10 s.
	Lease time.Duration
	// Failsafe is how long a writer goes on at most while it cannot renew its lease, if the agents
	// of all other instances confirm that none of them takes its place. Default: 5 min; negative:
	// it stops at the end of its lease.
	Failsafe time.Duration
	// Every is the time between two rounds of a cluster manager. Default: 1 s.
	Every time.Duration
	// FailoverAfter is how long a writer must be missing before a cluster manager fails over.
	// Default: 5 s.
	FailoverAfter time.Duration
	// Wrap wraps the transport to agents and cluster managers, as controller.Manager.Fence does.
	// nil: it is not wrapped.
	Wrap func(http.RoundTripper) http.RoundTripper
	Log  *slog.Logger // nil: slog.Default
}

const defaultFailsafe = 5 * time.Minute

// Placement implements the four ports with pods and claims.
type Placement struct {
	o       Options
	clients *transport.Clients // of agents, cluster managers and poolers

	mu      sync.Mutex
	secrets map[string]secrets               // by namespace/name
	trust   map[string]trust                 // by secretsKey
	owners  map[string]metav1.OwnerReference // by UID of the cluster
	seen    map[string]seenState             // by namespace/instance
	ended   map[string]time.Time             // by namespace/instance: when Recreate deleted the pod
	cache   cache.Cache                      // of the watched kinds; nil: there are no watches

	applied applied
}

// seenState is the last observed state, for states whose begin no object records.
type seenState struct {
	state port.InstanceState
	since time.Time
}

// NewPlacement returns a Placement. It does not call the API server yet.
func NewPlacement(o Options) (*Placement, error) {
	if o.Client == nil || o.Image == "" {
		return nil, errors.New("kube: Options.Client and Options.Image are required")
	}
	if o.Live == nil {
		o.Live = o.Client
	}
	if len(o.Images) == 0 {
		o.Images = map[string]string{"15": "postgres:15"}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	o.PoolerImage = cmp.Or(o.PoolerImage, DefaultPoolerImage)
	o.Tool, o.User = cmp.Or(o.Tool, "/usr/local/bin/pawl"), cmp.Or(o.User, 999)
	o.Lease, o.Every, o.FailoverAfter = cmp.Or(o.Lease, 7*time.Second), cmp.Or(o.Every, time.Second), cmp.Or(o.FailoverAfter, 5*time.Second)
	o.Failsafe = max(0, cmp.Or(o.Failsafe, defaultFailsafe))
	return &Placement{o: o, clients: &transport.Clients{Wrap: o.Wrap}, trust: map[string]trust{}, secrets: map[string]secrets{}, owners: map[string]metav1.OwnerReference{}, seen: map[string]seenState{}, ended: map[string]time.Time{}, applied: applied{version: map[string]string{}, state: map[string]*corev1.ConfigMap{}}}, nil
}

// Storage returns the port of this name.
func (s *Placement) Storage() *Storage { return &Storage{s} }

// Instances returns the port of this name, which is also a postgres.Locator.
func (s *Placement) Instances() *Instances { return &Instances{s} }

// Engine returns the port of this name. It calls engines through their agents.
func (s *Placement) Engine() postgres.Engine {
	return postgres.Engine{Locator: s.Instances(), Clients: s.clients}
}

// Manager returns the port of this name.
func (s *Placement) Manager() postgres.Manager {
	return postgres.Manager{Hosts: &Managers{s}, Locator: s.Instances(), Clients: s.clients}
}

// Ports returns the ports.
func (s *Placement) Ports() port.Ports {
	return port.Ports{Storage: s.Storage(), Instances: s.Instances(), Engine: s.Engine(), Manager: s.Manager(), Pooler: s.Pooler()}
}

// image returns the image of a version: this version, or the newest that begins with it; empty:
// the newest.
func (s *Placement) image(version string) (string, error) {
	if image := s.o.Images[version]; image != "" {
		return image, nil
	}
	if v := newest(s.o.Images, version); v != "" {
		return s.o.Images[v], nil
	}
	known := slices.SortedFunc(maps.Keys(s.o.Images), CompareVersions)
	return "", port.VersionUnsupported.Errorf("there is no image for version %s; there are images for %s", version, strings.Join(known, ", ")).With("version", version)
}

// newest returns the newest version that begins with version.
func newest(images map[string]string, version string) (found string) {
	for v := range images {
		if (version == "" || v == version || strings.HasPrefix(v, version+".")) && (found == "" || CompareVersions(v, found) > 0) {
			found = v
		}
	}
	return found
}

// version returns the version that a spec means, as it is recorded with instances: 15 is the
// newest 15.x with an image. A spec without a version keeps the major version of the cluster. A
// version without an image is returned as it is, and the flow reports it.
func (s *Placement) version(spec *v1alpha1.SharedStorageClusterSpec, is string) string {
	want := spec.Engine.Version
	if s == nil || want == "" && is == "" {
		return want
	}
	images := s.o.Images
	if len(spec.Images) > 0 {
		images = spec.Images
	}
	if _, exact := images[want]; exact {
		return want
	}
	major, _, _ := strings.Cut(is, ".")
	return cmp.Or(newest(images, cmp.Or(want, major)), want)
}

// CompareVersions orders versions such as 15.9 and 15.18.
func CompareVersions(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		x, y := "", ""
		if i < len(as) {
			x = as[i]
		}
		if i < len(bs) {
			y = bs[i]
		}
		if c := cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(x, y)); c != 0 {
			return c
		}
	}
	return 0
}

// owner returns the owner reference to the cluster object, or nil.
func (s *Placement) owner(ctx context.Context, c port.Ref) ([]metav1.OwnerReference, error) {
	if c.UID == "" {
		return nil, nil
	}
	s.mu.Lock()
	known, ok := s.owners[c.UID]
	s.mu.Unlock()
	if ok {
		return []metav1.OwnerReference{known}, nil
	}
	for _, kind := range []schema.GroupVersionKind{ClusterKind, MPDClusterKind} {
		obj := &metav1.PartialObjectMetadata{}
		obj.SetGroupVersionKind(kind)
		err := s.o.Live.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: c.Name}, obj)
		switch {
		case apierrors.IsNotFound(err), unserved(err):
			continue
		case err != nil:
			return nil, err
		case obj.UID != types.UID(c.UID):
			continue
		}
		found := *metav1.NewControllerRef(obj, kind)
		s.mu.Lock()
		s.owners[c.UID] = found
		s.mu.Unlock()
		return []metav1.OwnerReference{found}, nil
	}
	return nil, nil
}

// createObject creates an object of a cluster unless one of its name exists. It reports whether it
// did.
func (s *Placement) createObject(ctx context.Context, c port.Ref, obj client.Object) (bool, error) {
	owners, err := s.owner(ctx, c)
	if err != nil {
		return false, err
	}
	obj.SetOwnerReferences(owners)
	err = s.o.Client.Create(ctx, obj)
	if apierrors.IsAlreadyExists(err) {
		return false, nil
	}
	return err == nil, err
}

// of selects the objects of a component of a cluster.
func of(c port.Ref, component string) []client.ListOption {
	return []client.ListOption{client.InNamespace(c.Namespace), client.MatchingLabels{ClusterLabel: c.Name, ComponentLabel: component}}
}

// remove deletes an object. A missing one is not an error.
func (s *Placement) remove(ctx context.Context, obj client.Object) error {
	return client.IgnoreNotFound(s.o.Client.Delete(ctx, obj))
}

// secrets are the last read secrets of a cluster.
type secrets struct {
	token, password string
	former          string // the token before; agents without the new one accept it
	version         string
	created         metav1.Time
	replaced        bool // somebody replaced them while this process ran
	reported        bool // the pods were notified
}

// versionOfSecret is different for each Secret of a name, and each change of it.
func versionOfSecret(obj client.Object) string {
	return string(obj.GetUID()) + "." + obj.GetResourceVersion()
}

func secretsKey(c port.Ref) string { return c.Namespace + "/" + c.Name + "/" + c.UID }

func (s *Placement) known(c port.Ref) (secrets, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.secrets[secretsKey(c)]
	return known, ok
}

// secretsOf returns the last read secrets of a cluster. With fresh it reads them, and creates them
// if there are none.
func (s *Placement) secretsOf(ctx context.Context, c port.Ref, fresh bool) (secrets, error) {
	if known, ok := s.known(c); ok && !fresh {
		return known, nil
	}
	now, _, err := s.readSecrets(ctx, c, fresh)
	return now, err
}

// readSecrets reads the secrets of a cluster, and with create creates missing ones. It never
// creates those again that existed before, because whoever deleted them may have had a reason.
func (s *Placement) readSecrets(ctx context.Context, c port.Ref, create bool) (now secrets, made bool, err error) {
	obj := &corev1.Secret{ObjectMeta: meta(c, secretName(c), "")}
	err = s.o.Live.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	if apierrors.IsNotFound(err) && create {
		obj = &corev1.Secret{ObjectMeta: meta(c, secretName(c), "")}
		obj.Type, obj.Data = corev1.SecretTypeOpaque, map[string][]byte{tokenKey: []byte(random()), passwordKey: []byte(random()), "username": []byte("postgres")}
		if made, err = s.createObject(ctx, c, obj); err != nil {
			return secrets{}, false, err
		}
		err = s.o.Live.Get(ctx, client.ObjectKeyFromObject(obj), obj)
	}
	if err != nil {
		return secrets{}, false, err
	}
	now = secrets{token: strings.TrimSpace(string(obj.Data[tokenKey])), password: strings.TrimSpace(string(obj.Data[passwordKey])), version: versionOfSecret(obj), created: obj.CreationTimestamp}
	s.mu.Lock()
	defer s.mu.Unlock()
	was, ok := s.secrets[secretsKey(c)]
	switch {
	case ok && was.version == now.version:
		now = was
	case ok && was.token != now.token:
		now.former, now.replaced = was.token, true
	case ok:
		now.former, now.replaced = was.former, was.replaced || was.password != now.password
	}
	s.secrets[secretsKey(c)] = now
	return now, made, nil
}

// Password returns the password of the superuser postgres in the engines of a cluster.
func (s *Placement) Password(ctx context.Context, c port.Ref) (string, error) {
	known, err := s.secretsOf(ctx, c, false)
	return known.password, err
}

// forget drops what is cached of a cluster.
func (s *Placement) forget(c port.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.owners, c.UID)
	former := func(key string) bool { return strings.HasPrefix(key, c.Namespace+"/"+c.Name+"/") }
	maps.DeleteFunc(s.secrets, func(key string, _ secrets) bool { return former(key) })
	maps.DeleteFunc(s.trust, func(key string, _ trust) bool { return former(key) })
}

func random() string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// apply applies an object of a cluster.
func (s *Placement) apply(ctx context.Context, c port.Ref, obj client.Object) error {
	owners, err := s.owner(ctx, c)
	if err != nil {
		return err
	}
	obj.SetOwnerReferences(owners)
	return controller.Applier{Client: s.o.Client, Owner: controller.FieldOwner}.Apply(ctx, obj, nil)
}
