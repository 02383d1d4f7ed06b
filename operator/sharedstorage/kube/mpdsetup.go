package kube

import (
	"context"
	"errors"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/control"
	mpd "github.com/pawl-dev/pawl/kube/api/mpd/v1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/kube/runstore/requests"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/workflow"
)

// SetupMPD adds the controller of MPDClusters to the manager.
func (c Controllers) SetupMPD(store *MPDClusterStore) error {
	requests := []string{interruptRecover, cancelledKey}
	for theirs, ours := range mpdRequests {
		requests = append(requests, theirs)
		if prefixed := sharedstorage.Prefix + ours; !slices.Contains(requests, prefixed) {
			requests = append(requests, prefixed)
		}
	}
	runs, err := controller.RunsOf(c.Engine)
	if err != nil {
		return err
	}
	watches, err := c.Placement.watches(c.Manager, MPDKind)
	if err != nil {
		return err
	}
	events := c.Manager.Events("mpdcluster")
	s := &mpdServer{operator: c.Operator, store: store, engine: c.Engine, runs: runs, events: events, now: time.Now}
	return controller.Setup(c.Manager, controller.Controller[*mpd.MPDCluster]{
		Name: "mpdcluster", For: &mpd.MPDCluster{}, Cache: c.Cache,
		Reconcile: restoring(c.Cache, c.Placement, events, func() *mpd.MPDCluster { return &mpd.MPDCluster{} }, store.mine, s.reconcile),
		Requests:  requests, Signals: c.Operator.Listen, Workers: c.Workers,
		Owns:    []client.Object{&corev1.Pod{}, &appsv1.Deployment{}},
		Watches: append(watches, editedClasses(c.Cache, func() client.ObjectList { return &mpd.MPDClusterList{} })),
	})
}

type mpdServer struct {
	operator *sharedstorage.Operator
	store    *MPDClusterStore
	engine   *workflow.Engine
	runs     *controller.Runs
	events   controller.Events
	now      func() time.Time
}

// reconcile makes a pass of the operator, and carries out what only MPDClusters have: recover,
// cancelled, completed changes.
func (s *mpdServer) reconcile(ctx context.Context, ref control.Ref) outcome.Outcome {
	c, err := s.store.Load(ctx, port.Ref{Namespace: ref.Namespace, Name: ref.Name})
	if errors.Is(err, control.NotFound) {
		return outcome.Done()
	}
	if err != nil {
		return outcome.Fail(err)
	}
	if !s.store.mine(c.Version.(*controller.Draft[*mpd.MPDCluster]).Object) {
		return outcome.Done() // another operator's
	}
	if err := s.applyInterruptRequests(ctx, c, ref); err != nil {
		return outcome.Fail(err)
	}
	if err := s.applyRunRequests(ctx, ref); err != nil {
		return outcome.Fail(err)
	}
	out := s.operator.Reconcile(ctx, ref)
	if out.IsFail() {
		return out
	}
	if c, err = s.store.Load(ctx, port.Ref{Namespace: ref.Namespace, Name: ref.Name}); err != nil {
		if errors.Is(err, control.NotFound) {
			return out
		}
		return outcome.Fail(err)
	}
	if err := settleDesired(ctx, s.store.objects.Client, c.Version.(*controller.Draft[*mpd.MPDCluster]).Object, &c.Status); err != nil {
		return outcome.Fail(err)
	}
	return out
}

// applyRunRequests carries out the run requests in annotations, such as pawl.dev/pause. The answer
// is in our status, as for all other requests.
func (s *mpdServer) applyRunRequests(ctx context.Context, ref control.Ref) error {
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	obj := &mpd.MPDCluster{}
	if err := s.store.objects.Client.Get(ctx, key, obj); err != nil || !requests.HasRequests(obj.Annotations) {
		return client.IgnoreNotFound(err)
	}
	obj = &mpd.MPDCluster{} // the cache may be behind
	if err := s.store.objects.Live.Get(ctx, key, obj); err != nil {
		return client.IgnoreNotFound(err)
	}
	c, err := s.store.Load(ctx, port.Ref{Namespace: ref.Namespace, Name: ref.Name})
	if err != nil {
		return err
	}
	return s.runs.Accept(ctx, s.store.objects.Client, MPDKind, obj, c.Status.LastRequest, func(a requests.Answer) error {
		s.events.WarnRefusal(obj, a)
		c, err := s.store.Load(ctx, port.Ref{Namespace: ref.Namespace, Name: ref.Name})
		if errors.Is(err, control.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		record := a.Record(s.now())
		c.Status.LastRequest = &record
		return s.store.Save(ctx, c)
	})
}
