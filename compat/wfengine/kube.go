package wfengine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pawl-dev/pawl/compat/statemachine"
	"github.com/pawl-dev/pawl/compat/utils/k8sutil"
	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// EventsReasonFormat is the format of the reasons of Kubernetes Events.
const EventsReasonFormat = "WF_%s"

// WorkFlowJobConfigMapTag labels the ConfigMaps of the PolarDB Stack engine.
const WorkFlowJobConfigMapTag = "flowJobsDomain"

// takenOver marks such a ConfigMap once Pawl has taken over its flows.
const takenOver = "pawl.dev/taken-over"

// DefaultMementoStorage stores the runs of a resource in ConfigMaps, one for each run, owned by
// the resource, through Pawl's store: with leases, fencing and compare-and-swap. It takes over the
// records of the PolarDB Stack engine in the ConfigMap <resource>-workflow once, and leaves that
// ConfigMap unchanged except for a mark.
type DefaultMementoStorage struct {
	resource IKubeResource
	events   bool
}

// GetDefaultMementoStorageFactory returns the factory of the default storage. With enableEvent,
// the end and the interruption of a flow become Events of its resource, which must be an
// [IKubeResource].
//
// There is one store for each type of resource in the process, and it ignores the runs of other
// types. It uses the API server of k8sutil. Runs of resources without a namespace are in the
// namespace of the pod, or in default.
func GetDefaultMementoStorageFactory(_ string, enableEvent bool) CreateMementoStorageFunc {
	return func(resource statemachine.StateResource) (WfRuntimeMementoStorage, error) {
		kube, err := kubeOf(resource)
		if err != nil {
			return nil, err
		}
		return &DefaultMementoStorage{resource: kube, events: enableEvent}, nil
	}
}

// LoadMementoMap reads the records of the PolarDB Stack engine; nil if there are none.
func (s *DefaultMementoStorage) LoadMementoMap(maintenanceTakerName string) (map[string]string, error) {
	m, err := k8sutil.ConfigMapFactoryByName(maintenanceTakerName, s.resource.GetNamespace())
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return m.Data, nil
}

// Save returns an error: Pawl's store writes the runs, not texts.
func (s *DefaultMementoStorage) Save(mementoKey, _ string) error {
	return workflow.RequestInvalid.Errorf("%s: the default storage keeps runs, not texts", mementoKey)
}

// shared has the stores of the process.
var shared struct {
	sync.Mutex
	stores    map[string]*kuberuns.Store // by type of resource
	resources sync.Map                   // subject: served
	taken     map[string]bool            // subjects whose old records were checked
	stop      []func()                   // stops wakeResources of each store
}

// openTime limits the first read of the API server.
const openTime = time.Minute

func sharedStore(resourceType string) (*kuberuns.Store, error) {
	shared.Lock()
	defer shared.Unlock()
	if store := shared.stores[resourceType]; store != nil {
		return store, nil
	}
	_, config, err := k8sutil.GetKubeClient()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	store, err := kuberuns.Open(ctx, kuberuns.Options{
		Config: config, Kind: kuberuns.ConfigMap, Namespace: ownNamespace(), Owner: ownerOf,
		Serves: func(subject string) bool { return strings.HasPrefix(subject, resourceType+"/") },
	})
	if err != nil {
		return nil, err
	}
	if shared.stores == nil {
		shared.stores, shared.taken = map[string]*kuberuns.Store{}, map[string]bool{}
	}
	shared.stores[resourceType] = store
	wake, stop := context.WithCancel(context.Background())
	var waking sync.WaitGroup
	waking.Go(func() { wakeResources(wake, store) })
	shared.stop = append(shared.stop, func() { stop(); waking.Wait() })
	return store, nil
}

// Close closes the stores of the default storage with their watches, and stops waking resources.
// The next flow opens them again.
func Close() error {
	shared.Lock()
	defer shared.Unlock()
	for _, stop := range shared.stop {
		stop()
	}
	var errs []error
	for _, store := range shared.stores {
		errs = append(errs, store.Close())
	}
	shared.stores, shared.stop = nil, nil
	return errors.Join(errs...)
}

// ownNamespace returns the namespace of this pod; empty outside a cluster.
func ownNamespace() string {
	data, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return os.Getenv("POD_NAMESPACE")
	}
	return cmp.Or(os.Getenv("POD_NAMESPACE"), strings.TrimSpace(string(data)))
}

func ownerOf(subject string) *metav1.OwnerReference {
	if known, ok := shared.resources.Load(subject); ok {
		return known.(served).owner
	}
	return nil
}

// store returns the store of the process for the resource.
func (s *DefaultMementoStorage) store(m *WfManager, resource statemachine.StateResource) (runstore.Store, error) {
	store, err := sharedStore(m.ResourceType)
	if err != nil {
		return nil, err
	}
	subject := m.subject(resource)
	owner := s.owner()
	shared.resources.Store(subject, served{s.resource, owner})
	if err := s.takeOver(m, store, subject); err != nil {
		return nil, err
	}
	if s.events && owner != nil {
		return announcedStore{store, &announcements{owner, s.resource.GetNamespace()}}, nil
	}
	return store, nil
}

// owner returns the owner reference to the resource for its runs; nil if unknown.
func (s *DefaultMementoStorage) owner() *metav1.OwnerReference {
	object, isObject := s.resource.GetResource().(runtime.Object)
	scheme := s.resource.GetScheme()
	if !isObject || scheme == nil || s.resource.GetResource().GetUID() == "" {
		return nil
	}
	kinds, _, err := scheme.ObjectKinds(object)
	if err != nil || len(kinds) == 0 {
		return nil
	}
	version, kind := kinds[0].ToAPIVersionAndKind()
	return &metav1.OwnerReference{APIVersion: version, Kind: kind, Name: s.resource.GetName(), UID: s.resource.GetResource().GetUID()}
}

// takeOver imports the unfinished flow of the PolarDB Stack engine as a run, once.
func (s *DefaultMementoStorage) takeOver(m *WfManager, store runstore.Store, subject string) error {
	if s.known(subject) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	leave, err := m.turns.Take(ctx, "takeover/"+subject)
	if err != nil {
		return err
	}
	defer leave()
	if s.known(subject) {
		return nil
	}
	name, namespace := maintenanceLock(s.resource), s.resource.GetNamespace()
	left, err := k8sutil.ConfigMapFactoryByName(name, namespace)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("the flows before Pawl: %w", err)
	}
	if err == nil && left.Annotations[takenOver] == "" {
		if r, found := open(recordsOf(left.Data)); found {
			if err := m.takeOver(ctx, store, subject, r); err != nil {
				return err
			}
		}
		if err := mark(ctx, name, namespace); err != nil {
			return fmt.Errorf("ConfigMap %s/%s could not be marked as taken over: %w", namespace, name, err)
		}
	}
	shared.Lock()
	defer shared.Unlock()
	if shared.taken != nil {
		shared.taken[subject] = true
	}
	return nil
}

func (s *DefaultMementoStorage) known(subject string) bool {
	shared.Lock()
	defer shared.Unlock()
	return shared.taken[subject]
}

func mark(ctx context.Context, name, namespace string) error {
	c, err := k8sutil.GetCorev1Client()
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{takenOver: time.Now().UTC().Format(time.RFC3339)}}})
	if err != nil {
		return err
	}
	_, err = c.ConfigMaps(namespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "pawl"})
	return err
}

// announcements writes Kubernetes Events of a resource.
type announcements struct {
	of        *metav1.OwnerReference
	namespace string
}

// announce writes an Event. It ignores a failure, because Events are only informative.
func (a *announcements) announce(ctx context.Context, warning bool, reason, message string) {
	c, err := k8sutil.GetCorev1Client()
	if err != nil {
		return
	}
	kind, now := corev1.EventTypeNormal, metav1.Now()
	if warning {
		kind = corev1.EventTypeWarning
	}
	_, _ = c.Events(a.namespace).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: a.of.Name + ".", Namespace: a.namespace},
		InvolvedObject: corev1.ObjectReference{APIVersion: a.of.APIVersion, Kind: a.of.Kind, Name: a.of.Name, Namespace: a.namespace, UID: a.of.UID},
		Reason:         fmt.Sprintf(EventsReasonFormat, reason), Message: message, Type: kind,
		FirstTimestamp: now, LastTimestamp: now, Count: 1, Source: corev1.EventSource{Component: "pawl"},
	}, metav1.CreateOptions{})
}
