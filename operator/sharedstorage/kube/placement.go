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
)

// Options of a Site. Client and Image are required.
type Options struct {
	// Client writes, and reads what may be a moment old.
	Client client.Client
	// Live reads from the API server. nil: Client.
	Live client.Reader
	// Image has pawl as its entry point; cluster managers and the first container
	// of each instance run it.
	Image string
	// Tool is the path of pawl in Image. Default: /usr/local/bin/pawl.
	Tool string
	// Images by version of the engine, for clusters that name none. Default:
	// postgres:15.
	Images map[string]string
	// ForeignImages says that Images are not those of the operator that makes the
	// instances: Check says nothing of versions.
	ForeignImages bool
	// User runs engines: a number that the images know by a name. Default: 999, postgres in
	// the images of that name.
	User int64
	// StorageClass of new claims; empty: the default one.
	StorageClass string
	// Lease of a writer. Default: 10 s.
	Lease time.Duration
	// Every is the time between looks of a cluster manager. Default: 1 s.
	Every time.Duration
	// FailoverAfter is how long a writer must be silent until a cluster manager
	// fails over. Default: 5 s.
	FailoverAfter time.Duration
	// Wrap sees what is asked of agents and cluster managers, as
	// controller.Manager.Fence does. nil: nobody does.
	Wrap func(http.RoundTripper) http.RoundTripper
	Log  *slog.Logger // nil: slog.Default
}

// Placement is a world of pods and claims: the four ports.
type Placement struct {
	o    Options
	http *http.Client // to agents and cluster managers

	mu      sync.Mutex
	secrets map[string]secrets               // by namespace/name
	owners  map[string]metav1.OwnerReference // by UID of the cluster
	seen    map[string]seenState             // by namespace/instance
	cache   cache.Cache                      // of what is watched; nil: nothing is

	applied applied
}

// seenState is the state that was seen last where nothing else says since when.
type seenState struct {
	state port.InstanceState
	since time.Time
}

// NewPlacement makes a Site. It asks the API server nothing yet.
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
	o.Tool, o.User = cmp.Or(o.Tool, "/usr/local/bin/pawl"), cmp.Or(o.User, 999)
	o.Lease, o.Every, o.FailoverAfter = cmp.Or(o.Lease, 10*time.Second), cmp.Or(o.Every, time.Second), cmp.Or(o.FailoverAfter, 5*time.Second)
	return &Placement{o: o, http: postgres.NewClient(o.Wrap), secrets: map[string]secrets{}, owners: map[string]metav1.OwnerReference{}, seen: map[string]seenState{}, applied: applied{version: map[string]string{}, state: map[string]*corev1.ConfigMap{}}}, nil
}

// Storage is the port of that name.
func (s *Placement) Storage() *Storage { return &Storage{s} }

// Instances is the port of that name; it also tells where instances are.
func (s *Placement) Instances() *Instances { return &Instances{s} }

// Engine is the port of that name: engines are asked through their agents.
func (s *Placement) Engine() postgres.Engine {
	return postgres.Engine{Locator: s.Instances(), HTTP: s.http}
}

// Manager is the port of that name.
func (s *Placement) Manager() postgres.Manager {
	return postgres.Manager{Hosts: &Managers{s}, Locator: s.Instances(), HTTP: s.http}
}

// Ports are the four together.
func (s *Placement) Ports() port.Ports {
	return port.Ports{Storage: s.Storage(), Instances: s.Instances(), Engine: s.Engine(), Manager: s.Manager()}
}

// image is that of a version: the version itself, or the newest that begins
// with it; empty: the newest.
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

// newest is the newest version that begins with one; of an empty one: of all.
func newest(images map[string]string, version string) (found string) {
	for v := range images {
		if (version == "" || v == version || strings.HasPrefix(v, version+".")) && (found == "" || CompareVersions(v, found) > 0) {
			found = v
		}
	}
	return found
}

// version is the one that a spec means, as instances are recorded with it: 15 is
// the newest 15.x there is an image for. Where the spec says nothing, a cluster
// stays with its major version. What there is no image for stays as it is said:
// the flow tells of it.
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

// owner is the object of a cluster, as owner of what it has. nil: there is none.
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

// createObject creates an object that belongs to a cluster, unless there is one of its
// name. It reports whether it was made.
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

// of selects what a cluster has of a component.
func of(c port.Ref, component string) []client.ListOption {
	return []client.ListOption{client.InNamespace(c.Namespace), client.MatchingLabels{ClusterLabel: c.Name, ComponentLabel: component}}
}

// remove deletes an object. Gone is no error.
func (s *Placement) remove(ctx context.Context, obj client.Object) error {
	return client.IgnoreNotFound(s.o.Client.Delete(ctx, obj))
}

// secrets are those of a cluster, as they were read last.
type secrets struct {
	token, password string
	former          string // the token before: who has not got the new one takes this
	version         string
	created         metav1.Time
	replaced        bool // while this process looked
	reported        bool // the pods were let know
}

// versionOfSecret is another one for each Secret of a name, and each change of it.
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

// secretsOf gives the secrets of a cluster as they were read last; with fresh they
// are read, and made if there are none.
func (s *Placement) secretsOf(ctx context.Context, c port.Ref, fresh bool) (secrets, error) {
	if known, ok := s.known(c); ok && !fresh {
		return known, nil
	}
	now, _, err := s.readSecrets(ctx, c, fresh)
	return now, err
}

// readSecrets reads the secrets of a cluster, and with create makes them if there
// are none. Those that were there before are never made again: whoever deleted them
// may have had a reason.
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

// Password is that of the superuser postgres in the engines of a cluster.
func (s *Placement) Password(ctx context.Context, c port.Ref) (string, error) {
	known, err := s.secretsOf(ctx, c, false)
	return known.password, err
}

// forget drops what is remembered of a cluster.
func (s *Placement) forget(c port.Ref) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.owners, c.UID)
	for key := range s.secrets {
		if strings.HasPrefix(key, c.Namespace+"/"+c.Name+"/") {
			delete(s.secrets, key)
		}
	}
}

func random() string {
	var b [24]byte
	_, _ = rand.Read(b[:]) // it never fails
	return hex.EncodeToString(b[:])
}

// apply makes an object of a cluster what it is to be.
func (s *Placement) apply(ctx context.Context, c port.Ref, obj client.Object) error {
	owners, err := s.owner(ctx, c)
	if err != nil {
		return err
	}
	obj.SetOwnerReferences(owners)
	return controller.Applier{Client: s.o.Client, Owner: controller.FieldOwner}.Apply(ctx, obj, nil)
}
