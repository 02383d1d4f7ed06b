package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	mpd "github.com/pawl-dev/pawl/kube/api/mpd/v1"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

const (
	// MPDOperator is the operator name of the MPDClusters that an operator without a name serves.
	MPDOperator = "polar-mpd"
	// MPDStatus is the annotation of an MPDCluster with our status, because its CRD keeps only its
	// own fields. Those are derived from this.
	MPDStatus = "pawl.dev/status"

	// MPDKind is the kind of the objects.
	MPDKind = "MPDCluster"

	quotaStep = 10 << 10 // MB
)

// MPDClusterKind is the kind of the objects.
var MPDClusterKind = mpd.GroupVersion.WithKind(MPDKind)

// MPDClusterStore stores clusters as MPDCluster objects.
type MPDClusterStore struct {
	objects   *controller.Store[*mpd.MPDCluster]
	Placement *Placement // as in ClusterStore
	name      string

	parameters userParameters
}

var _ sharedstorage.ClusterStore = &MPDClusterStore{}

// NewMPDClusterStore returns an MPDClusterStore that reads as NewClusterStore does. name is the
// name of the operator, as in sharedstorage.Options.
func NewMPDClusterStore(cached client.Client, live client.Reader, name string) *MPDClusterStore {
	return &MPDClusterStore{objects: newObjects(cached, live, func() *mpd.MPDCluster { return &mpd.MPDCluster{} }), name: name}
}

// mine reports whether an object belongs to this operator. A missing name means MPDOperator, on
// either side.
func (h *MPDClusterStore) mine(obj *mpd.MPDCluster) bool {
	return cmp.Or(obj.Spec.OperatorName, MPDOperator) == cmp.Or(h.name, MPDOperator)
}

// Load implements sharedstorage.ClusterStore.
func (h *MPDClusterStore) Load(ctx context.Context, ref port.Ref) (*sharedstorage.Cluster, error) {
	draft, err := h.objects.Load(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name})
	if errors.Is(err, control.NotFound) {
		h.parameters.forget(client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name})
	}
	if err != nil {
		return nil, err
	}
	obj := draft.Object
	c := clusterOf(obj)
	c.Version = draft
	for theirs, value := range obj.Annotations {
		if ours, translated, ok := requestOf(theirs, value); ok {
			c.Annotations[ours] = translated
		}
	}
	if err := h.status(ctx, c, obj); err != nil {
		return nil, err
	}
	c.Spec, c.Refused = specOf(obj)
	c.Spec.Engine.Version = h.Placement.version(&c.Spec, c.Status.Version)
	if h.mine(obj) {
		c.Spec.OperatorName = h.name
	}
	if c.Spec.Parameters, err = h.parameters.of(ctx, h.objects.Live, obj); err != nil {
		return nil, err
	}
	return c, nil
}

// status reads the status of an object: from our annotation, or as an earlier operator has left
// it.
func (h *MPDClusterStore) status(ctx context.Context, c *sharedstorage.Cluster, obj *mpd.MPDCluster) (err error) {
	text := obj.Annotations[MPDStatus]
	if text == "" {
		c.Status, err = h.takeOver(ctx, obj)
		return err
	}
	if err := json.Unmarshal([]byte(text), &c.Status); err != nil {
		return sharedstorage.SpecInvalid.Errorf("annotation %s: %w", MPDStatus, err)
	}
	return nil
}

// specOf translates the spec of an MPDCluster into ours. refused is why it cannot be served.
func specOf(obj *mpd.MPDCluster) (spec v1alpha1.SharedStorageClusterSpec, refused error) {
	s := obj.Spec
	spec.Engine.Type, spec.OperatorName = "postgres", s.OperatorName
	spec.Class.Name = cmp.Or(s.ClassInfoModifyTo.ClassName, s.ClassInfo.ClassName)
	version := s.VersionCfg
	if s.VersionCfgModifyTo.VersionName != "" {
		version = s.VersionCfgModifyTo
	}
	spec.Engine.Version = version.VersionName
	if version.VersionName != "" && version.EngineImage != "" {
		spec.Images = map[string]string{version.VersionName: version.EngineImage}
	}
	spec.Readers, spec.HA.Enabled, spec.Durability = &s.FollowerNum, ptr(true), "strict"
	spec.Storage.OnDelete, spec.Scheduling.Spread = "Retain", hostnameLabel
	if s.NetCfg.EngineStartPort > 0 {
		step := s.NetCfg.PortStep
		if step <= 0 || step > 100 {
			step = 5
		}
		spec.Ports = &v1alpha1.PortRange{Start: s.NetCfg.EngineStartPort, Step: step}
	}
	if s.DBClusterType != "" && s.DBClusterType != "share" {
		refused = sharedstorage.ClusterTypeUnsupported.Errorf("dbClusterType: %s", s.DBClusterType)
	}
	if store := s.ShareStore; store != nil {
		spec.Storage.Claim, spec.Storage.Volume = store.SharePvcName, store.VolumeID
		if spec.Storage.Claim != "" {
			spec.Storage.Volume = "" // the claim determines it
		}
		if store.SharePvcNamespace != "" && store.SharePvcNamespace != obj.Namespace {
			refused = errors.Join(refused, sharedstorage.SpecInvalid.Errorf("shareStore.sharePvcNamespace: the claim must be in namespace %s", obj.Namespace))
		}
		if store.DiskQuota != "" {
			quota, err := strconv.ParseInt(strings.TrimSpace(store.DiskQuota), 10, 64)
			if err != nil || quota <= 0 || quota > 1<<40 {
				refused = errors.Join(refused, sharedstorage.SpecInvalid.Errorf("shareStore.diskQuota: %q is no number of MB", store.DiskQuota))
			} else {
				spec.Storage.Size = resource.NewQuantity((quota+quotaStep-1)/quotaStep*quotaStep<<20, resource.BinarySI)
			}
		}
	}
	if spec.Storage.Size == nil {
		spec.Storage.Size = resource.NewQuantity(10<<30, resource.BinarySI)
	}
	return spec, refused
}

// The request annotations of MPDCluster, and the requests that they stand for.
var mpdRequests = map[string]string{
	"restartCluster": sharedstorage.Restart, "restartIns": sharedstorage.Restart, "switchRw": sharedstorage.SwitchWriter, "migrate": sharedstorage.Migrate,
	"removeIns": sharedstorage.RemoveReader, "forceRebuild": sharedstorage.Rebuild, "flushParams": sharedstorage.FlushParameters, "extendStorage": sharedstorage.ExtendStorage,
}

// requestOf translates a request annotation.
func requestOf(theirs, value string) (ours, translated string, ok bool) {
	kind, ok := mpdRequests[theirs]
	if !ok || value == "" || value == "F" || value == "false" || value == "0" {
		return "", "", false
	}
	if theirs == "restartCluster" || theirs == "forceRebuild" {
		if args, id, stamped := strings.Cut(value, "#"); truthy(args) {
			if value = "cluster"; stamped {
				value += "#" + id
			}
		}
	}
	return sharedstorage.Prefix + kind, value, true
}

// truthy reports whether a value means yes.
func truthy(value string) bool { return value == "T" || value == "true" || value == "1" }

// Annotate implements sharedstorage.ClusterStore.
func (h *MPDClusterStore) Annotate(ctx context.Context, c *sharedstorage.Cluster, key, from, to string) error {
	draft, err := draftOf[*mpd.MPDCluster](c)
	if err != nil {
		return err
	}
	for theirs, value := range draft.Object.Annotations {
		if ours, translated, ok := requestOf(theirs, value); ok && ours == key && translated == from {
			if err := annotate(ctx, h.objects, draft, c, theirs, value, to); err != nil {
				return err
			}
			delete(c.Annotations, theirs)
			if c.Annotations[key] = to; to == "" {
				delete(c.Annotations, key)
			}
			return nil
		}
	}
	return annotate(ctx, h.objects, draft, c, key, from, to)
}

// Save implements sharedstorage.ClusterStore: it writes the derived fields first, then our status,
// on exactly the version that was loaded.
func (h *MPDClusterStore) Save(ctx context.Context, c *sharedstorage.Cluster) error {
	draft, err := draftOf[*mpd.MPDCluster](c)
	if err != nil {
		return err
	}
	text, err := json.Marshal(c.Status)
	if err != nil {
		return err
	}
	before := draft.Object.Status.ClusterStatus
	derive(c, &draft.Object.Status)
	stays := c.Finalized || slices.Contains(draft.Object.Finalizers, sharedstorage.Finalizer) // the finalizer goes last
	if err := h.objects.Save(ctx, draft, stays); err != nil {
		return err
	}
	annotations := interrupted(c, before, draft.Object.Annotations)
	annotations[MPDStatus] = string(text)
	if err := h.objects.SetAnnotations(ctx, draft, annotations); err != nil {
		return err
	}
	if !c.Finalized {
		return h.objects.Release(ctx, draft)
	}
	return nil
}

// Classes implements sharedstorage.ClusterStore.
func (h *MPDClusterStore) Classes(ctx context.Context, namespace string) (map[string]port.Class, error) {
	return classes(ctx, h.objects.Client, namespace)
}

// The names of states in MPDCluster, where they differ.
var mpdStates = map[string]string{
	"Interrupted": "Interrupt", "Recreating": "Rebuild", "ChangingSpecification": "ModifyClass", "ModifyingParameters": "FlushParams", "Switching": "SwitchRw",
	"Upgrading": "UpgradeMinorVersion", "RebuildingReader": "RebuildRo", "Locking": "AddRo", "ScalingOut": "AddRo", "ScalingIn": "RemoveRo", "ExtendingStorage": "ExtendStorage",
}

// flowOf returns the flow of the state a cluster is in; empty: the default flow of that state.
func flowOf(s *v1alpha1.SharedStorageClusterStatus) string {
	var p machine.Position
	if len(s.Position) > 0 && json.Unmarshal(s.Position, &p) == nil && p.Flow != "" {
		return p.Flow
	}
	if s.Run != nil {
		return s.Run.Flow
	}
	return ""
}

// stateOf returns the name of the state a cluster is in.
func stateOf(s *v1alpha1.SharedStorageClusterStatus, state string) string {
	var args, kind string
	for i := range s.Requests {
		if r := &s.Requests[i]; r.State == sharedstorage.InWork {
			args, kind = r.Args, r.Kind
		}
	}
	switch state {
	case "Restarting":
		if kind == sharedstorage.Restart && args != "cluster" && !truthy(args) {
			return "RestartIns"
		}
		return "RestartCluster"
	case "Migrating":
		if flowOf(s) == "MigrateWriter" { // the flow itself changes the writer
			return "MigrateRw"
		}
		return "MigrateRo"
	}
	return cmp.Or(mpdStates[state], state)
}

// derive sets the status of an MPDCluster from ours.
func derive(c *sharedstorage.Cluster, to *mpd.MPDClusterStatus) {
	s := &c.Status
	to.ClusterStatus, to.FollowerNum, to.LeaderInstanceID, to.LeaderInstanceHost = stateOf(s, s.State), s.Readers, s.Writer, ""
	to.DBInstanceStatus = map[string]*mpd.InstanceStatus{}
	for id, i := range s.Instances {
		one := &mpd.InstanceStatus{
			InsID: id, InsName: i.Name, PodName: i.Name, PodNamespace: c.Ref.Namespace, NodeName: i.Node, HostClientIP: i.Address, Installed: i.Health == "Healthy",
			Role: "follower", InsType: i.Role, Status: strings.ToUpper(i.Health), VersionInfo: mpd.VersionInfo{VersionName: i.Version}, InsClassInfo: mpd.ClassInfo{ClassName: i.Class},
			NetInfo: mpd.NetInfo{WorkingPort: i.Port, WorkingHostIP: i.Address},
		}
		if id == s.Writer {
			one.Role, to.LeaderInstanceHost = "leader", cmp.Or(i.Node, i.Address)
		}
		to.DBInstanceStatus[id] = one
	}
	to.Conditions = nil
	for _, cond := range s.Conditions {
		to.Conditions = append(to.Conditions, mpd.Condition{
			Type: cond.Type, Status: string(cond.Status), LastProbeTime: cond.LastTransitionTime, LastTransitionTime: cond.LastTransitionTime, Reason: cond.Reason, Message: cond.Message,
		})
	}
}

// settleDesired copies a completed change from its …ModifyTo field to the plain field, with the
// parts that are unknown here, and removes the former. A newer value stays, because the patch
// tests the value.
func settleDesired(ctx context.Context, to client.Client, obj *mpd.MPDCluster, s *v1alpha1.SharedStorageClusterStatus) error {
	var ops []controller.Operation
	if want := obj.Spec.ClassInfoModifyTo; want.ClassName != "" && s.Class == want.ClassName {
		ops = append(ops, controller.Operation{Op: "test", Path: "/spec/classInfoModifyTo/className", Value: want.ClassName},
			controller.Operation{Op: "copy", From: "/spec/classInfoModifyTo", Path: "/spec/classInfo"}, controller.Operation{Op: "replace", Path: "/spec/classInfoModifyTo", Value: mpd.ClassInfo{}})
	}
	if want := obj.Spec.VersionCfgModifyTo; want.VersionName != "" && s.Version == want.VersionName {
		ops = append(ops, controller.Operation{Op: "test", Path: "/spec/versionCfgModifyTo/versionName", Value: want.VersionName},
			controller.Operation{Op: "copy", From: "/spec/versionCfgModifyTo", Path: "/spec/versionCfg"}, controller.Operation{Op: "remove", Path: "/spec/versionCfgModifyTo"})
	}
	if len(ops) == 0 || s.State != string(sharedstorage.Running) {
		return nil
	}
	patch, err := controller.SameObject(obj, ops...)
	if err != nil {
		return err
	}
	err = controller.Fault(to.Patch(ctx, obj.DeepCopy(), patch))
	if fault.Of(err) == controller.Refused {
		return nil // the tested value has changed: the next pass reads the newer one
	}
	return err
}
