package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Restored receives a message about a restored object, for an Event of the cluster.
type Restored func(reason, format string, args ...any)

// applied is what this process knows of the objects that it has written.
type applied struct {
	mu      sync.Mutex
	version map[string]string            // by kind/namespace/name: the desired object, and the version that it got
	state   map[string]*corev1.ConfigMap // ConfigMaps of cluster managers, as they were when they were deleted
}

// Restore restores the objects of a cluster that somebody has deleted or changed. It reads caches,
// and asks the API server only for what they lack. It does not handle data and the grant record.
func (s *Placement) Restore(ctx context.Context, c port.Ref, report Restored) error {
	instances, err := s.listInstances(ctx, c, s.o.Client, client.MatchingLabels{ClusterLabel: c.Name, ComponentLabel: instanceComponent})
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(instances, func(h *instanceObjects) bool { return h.claim != nil && !h.leaving() }) {
		return nil // the cluster is being created and has not come to this
	}
	if err := s.restoreSecret(ctx, c, report); err != nil {
		return err
	}
	for _, obj := range s.clusterObjects(c) {
		done, err := s.restoreObject(ctx, c, obj)
		if err != nil {
			return err
		}
		if done != wasThere && report != nil {
			kind, _, _ := strings.Cut(s.keyOf(obj), "/")
			report("Restored", "%s %s %s", kind, obj.GetName(), done)
		}
	}
	if err := s.restoreWatchState(ctx, c, report); err != nil {
		return err
	}
	return s.renewAccounts(ctx, c, instances, report)
}

// watched returns a reader for the watched objects; without watches it is the client.
func (s *Placement) watched() client.Reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cache != nil {
		return s.cache
	}
	return s.o.Client
}

// What restoreObject did.
const (
	wasThere   = ""
	wasGone    = "was gone, and is created again"
	wasChanged = "was changed, and is what it was again"
)

// keyOf returns a key of an object that includes its kind.
func (s *Placement) keyOf(obj client.Object) string {
	gvk, _ := apiutil.GVKForObject(obj, s.o.Client.Scheme()) // only types of our scheme
	return gvk.Kind + "/" + client.ObjectKeyFromObject(obj).String()
}

// restoreObject makes an object equal to want. It accepts a change that happens as soon as the
// object is applied, such as one of an admission webhook.
func (s *Placement) restoreObject(ctx context.Context, c port.Ref, want client.Object) (done string, err error) {
	owners, err := s.owner(ctx, c)
	if err != nil {
		return "", err
	}
	want.SetOwnerReferences(owners)
	s.applied.mu.Lock()
	known := s.applied.version[s.keyOf(want)]
	s.applied.mu.Unlock()
	text, err := json.Marshal(want)
	if err != nil {
		return "", err
	}
	done = wasGone
	for _, from := range []client.Reader{s.watched(), s.o.Live} { // the cache may be behind the writes of this process
		is := want.DeepCopyObject().(client.Object)
		err := from.Get(ctx, client.ObjectKeyFromObject(want), is)
		switch {
		case apierrors.IsNotFound(err):
			done = wasGone
		case err != nil:
			return "", err
		case matches(want, is), string(text)+is.GetResourceVersion() == known:
			return wasThere, nil
		default:
			done = wasChanged
		}
	}
	if err := s.apply(ctx, c, want); err != nil {
		return "", err
	}
	s.applied.mu.Lock()
	defer s.applied.mu.Unlock()
	s.applied.version[s.keyOf(want)] = string(text) + want.GetResourceVersion()
	return done, nil
}

// matches reports whether an object has everything that want has. Where more would be a permission
// or another pod, it must have nothing else.
func matches(want, is client.Object) bool {
	for key, value := range want.GetLabels() {
		if is.GetLabels()[key] != value {
			return false
		}
	}
	for _, owner := range want.GetOwnerReferences() {
		if !slices.ContainsFunc(is.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == owner.UID }) {
			return false
		}
	}
	switch want := want.(type) {
	case *corev1.Service:
		is := is.(*corev1.Service)
		return maps.Equal(want.Spec.Selector, is.Spec.Selector) && equality.Semantic.DeepDerivative(want.Spec, is.Spec)
	case *rbacv1.Role:
		return equality.Semantic.DeepEqual(want.Rules, is.(*rbacv1.Role).Rules)
	case *rbacv1.RoleBinding:
		is := is.(*rbacv1.RoleBinding)
		return want.RoleRef == is.RoleRef && equality.Semantic.DeepEqual(want.Subjects, is.Subjects)
	case *policyv1.PodDisruptionBudget:
		is := is.(*policyv1.PodDisruptionBudget)
		return is.Spec.MaxUnavailable == nil && is.Spec.MinAvailable != nil && *is.Spec.MinAvailable == *want.Spec.MinAvailable && equality.Semantic.DeepDerivative(want.Spec, is.Spec)
	}
	return true
}

// metadata returns an object for kinds of which only the metadata are watched.
func metadata(kind string, c port.Ref, name string) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: name}}
	obj.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return obj
}

// restoreSecret creates the secrets of a cluster again if they are gone; all processes take the
// new ones. It also notices secrets that somebody has replaced.
func (s *Placement) restoreSecret(ctx context.Context, c port.Ref, report Restored) error {
	seen := metadata("Secret", c, secretName(c))
	err := s.watched().Get(ctx, client.ObjectKeyFromObject(seen), seen)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	known, have := s.known(c)
	if err == nil && have && known.version == versionOfSecret(seen) && known.reported {
		return nil
	}
	gone := apierrors.IsNotFound(err)
	now, made, err := s.readSecrets(ctx, c, gone)
	if err != nil {
		return err
	}
	if made && report != nil {
		report("SecretReplaced", "Secret %s was gone: it has a new token and a new password, and all instances take them", secretName(c))
	}
	return s.publishSecrets(ctx, c, now)
}

// publishSecrets makes the pods of a cluster take secrets that are newer than they. A kubelet
// updates the files of a pod at once when the pod changes, and otherwise within a minute or two.
func (s *Placement) publishSecrets(ctx context.Context, c port.Ref, now secrets) error {
	var pods corev1.PodList
	if err := s.o.Client.List(ctx, &pods, client.InNamespace(c.Namespace), client.MatchingLabels{ClusterLabel: c.Name}); err != nil {
		return err
	}
	for n := range pods.Items {
		pod := &pods.Items[n]
		older := pod.CreationTimestamp.Before(&now.created) || now.replaced
		if !older || pod.Annotations[secretAnnotation] == now.version || pod.DeletionTimestamp != nil {
			continue
		}
		before := pod.DeepCopy()
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, secretAnnotation, now.version)
		if err := client.IgnoreNotFound(s.o.Client.Patch(ctx, pod, client.MergeFrom(before))); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, ok := s.secrets[secretsKey(c)]; ok && known.version == now.version {
		known.reported = true
		s.secrets[secretsKey(c)] = known
	}
	return nil
}

// restoreWatchState creates the ConfigMap of a cluster manager again, with its content at the
// deletion, if this process saw that. It leaves out the list of readers that have each answered
// commit, because that may be older than the last save; the manager finds it out again.
func (s *Placement) restoreWatchState(ctx context.Context, c port.Ref, report Restored) error {
	deployment := &appsv1.Deployment{}
	err := s.o.Client.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: managerName(c)}, deployment)
	if apierrors.IsNotFound(err) || err == nil && deployment.DeletionTimestamp != nil {
		return nil // there is no manager
	}
	if err != nil {
		return err
	}
	state := &corev1.ConfigMap{ObjectMeta: meta(c, managerName(c), managerComponent)}
	for _, from := range []client.Reader{s.watched(), s.o.Live} {
		if err := from.Get(ctx, client.ObjectKeyFromObject(state), state); !apierrors.IsNotFound(err) {
			return err
		}
	}
	state = &corev1.ConfigMap{ObjectMeta: meta(c, managerName(c), managerComponent)}
	key := client.ObjectKeyFromObject(state).String()
	s.applied.mu.Lock()
	was := s.applied.state[key]
	delete(s.applied.state, key)
	s.applied.mu.Unlock()
	if was != nil {
		state.Data = withoutSync(was.Data)
		if by := was.Annotations[savedBy]; by != "" {
			metav1.SetMetaDataAnnotation(&state.ObjectMeta, savedBy, by)
		}
	}
	made, err := s.createObject(ctx, c, state)
	if made && report != nil {
		report("Restored", "ConfigMap %s was gone, and is created again", state.Name)
	}
	return err
}

// renewAccounts deletes pods that are older than their ServiceAccount, so that they are created
// again: their tokens belong to a deleted account, and no kubelet replaces them in time. The
// writer comes first, as it cannot renew its lease; then pods that are not ready, as they cannot
// read the grant; the others one at a time.
func (s *Placement) renewAccounts(ctx context.Context, c port.Ref, instances []*instanceObjects, report Restored) error {
	born := func(name string) (metav1.Time, error) {
		account := &corev1.ServiceAccount{ObjectMeta: meta(c, name, "")}
		err := s.watched().Get(ctx, client.ObjectKeyFromObject(account), account)
		return account.CreationTimestamp, client.IgnoreNotFound(err)
	}
	made, err := born(instanceAccount(c))
	if err != nil {
		return err
	}
	var stale []*instanceObjects
	whole := true
	for _, h := range instances {
		if h.leaving() {
			continue
		}
		ready := h.pod != nil && h.pod.DeletionTimestamp == nil && isReady(h.pod)
		whole = whole && ready
		if h.pod != nil && h.pod.DeletionTimestamp == nil && h.pod.CreationTimestamp.Before(&made) {
			stale = append(stale, h)
		}
	}
	if len(stale) > 0 {
		grant, err := s.Storage().grants(c).Read(ctx)
		if err != nil {
			return err
		}
		n := slices.IndexFunc(stale, func(h *instanceObjects) bool { return h.name == grant.Writer })
		if n < 0 {
			n = slices.IndexFunc(stale, func(h *instanceObjects) bool { return !isReady(h.pod) })
		}
		if n < 0 && whole {
			n = 0
		}
		if n >= 0 {
			if report != nil {
				report("PodRenewed", "pod %s has the token of a ServiceAccount that is gone, and is created again", stale[n].pod.Name)
			}
			if err := s.remove(ctx, stale[n].pod); err != nil {
				return err
			}
		}
	}
	if made, err = born(managerAccount(c)); err != nil {
		return err
	}
	pod, err := (&Managers{s}).pod(ctx, c)
	if err != nil || pod == nil || !pod.CreationTimestamp.Before(&made) {
		return err
	}
	if report != nil {
		report("PodRenewed", "pod %s has the token of a ServiceAccount that is gone, and is created again", pod.Name)
	}
	return s.remove(ctx, pod)
}

func isReady(pod *corev1.Pod) bool {
	at := condition(pod, corev1.PodReady)
	return at != nil && at.Status == corev1.ConditionTrue
}

// deleted keeps the content of a cluster manager's ConfigMap that is deleted.
func (s *Placement) deleted(obj client.Object) {
	if state, ok := obj.(*corev1.ConfigMap); ok {
		s.applied.mu.Lock()
		defer s.applied.mu.Unlock()
		s.applied.state[client.ObjectKeyFromObject(obj).String()] = state.DeepCopy()
	}
}

// restoreReporter returns a function that writes Events of a cluster, and log lines.
func (s *Placement) restoreReporter(events controller.Events, about client.Object) Restored {
	return func(reason, format string, args ...any) {
		s.o.Log.Warn("restored an object", "cluster", client.ObjectKeyFromObject(about).String(), "what", fmt.Sprintf(format, args...))
		events.Warn(about, reason, format, args...)
	}
}
