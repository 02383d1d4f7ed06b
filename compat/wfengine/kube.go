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

// EventsReasonFormat is the form of the reasons of Kubernetes Events.
const EventsReasonFormat = "WF_%s"

// WorkFlowJobConfigMapTag labels the ConfigMaps of the PolarDB Stack engine.
const WorkFlowJobConfigMapTag = "flowJobsDomain"

// takenOver marks such a ConfigMap when its flows are Pawl's.
const takenOver = "pawl.dev/taken-over"

// DefaultMementoStorage keeps the runs of a resource in ConfigMaps, one a run,
// owned by the resource, through Pawl's store: with leases, fencing and
// compare-and-swap. What the PolarDB Stack engine has left in the ConfigMap
// <resource>-workflow is taken over once, and stays there as it is.
type DefaultMementoStorage struct {
	resource IKubeResource
	events   bool
}

// GetDefaultMementoStorageFactory gives the default storage. With enableEvent
// the end and the interruption of a flow become Events of its resource, which
// must be an [IKubeResource].
//
// The store is one for the process and type of resource, and leaves the runs of
// other types alone; it reads the API server that k8sutil finds, and keeps what
// belongs to no namespace in the one of the pod, or in default.
func GetDefaultMementoStorageFactory(_ string, enableEvent bool) CreateMementoStorageFunc {
	return func(resource statemachine.StateResource) (WfRuntimeMementoStorage, error) {
		kube, err := kubeOf(resource)
		if err != nil {
			return nil, err
		}
		return &DefaultMementoStorage{resource: kube, events: enableEvent}, nil
	}
}

// LoadMementoMap reads what the PolarDB Stack engine has left; nil if nothing.
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

// Save refuses: the runs are written by Pawl's store, not as texts.
func (s *DefaultMementoStorage) Save(mementoKey, _ string) error {
	return workflow.RequestInvalid.Errorf("%s: the default storage keeps runs, not texts", mementoKey)
}

// shared are the stores of the process.
var shared struct {
	sync.Mutex
	stores    map[string]*kuberuns.Store // by type of resource
	resources sync.Map                   // subject: served
	taken     map[string]bool            // subjects whose old records were looked at
	stop      []func()                   // end what wakes resources, one a store
}

// openTime bounds the first look at the API server.
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

// Close ends what the default storage keeps open: its watches, and what they
// wake. The next flow
// opens it again.
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

// ownNamespace is the one of this pod; empty outside a cluster.
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

// store gives the store of the process, when it knows the resource.
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

// owner is the resource as the owner of its runs; nil where that cannot be told.
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

// takeOver makes a run of what the PolarDB Stack engine has left, once.
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

// announcements are Kubernetes Events of a resource.
type announcements struct {
	of        *metav1.OwnerReference
	namespace string
}

// announce writes an Event; one that is not written is missed by nobody.
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
