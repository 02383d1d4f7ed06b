package kube

import (
	"context"
	"errors"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/control"
	mpd "github.com/pawl-dev/pawl/kube/api/mpd/v1"
	"github.com/pawl-dev/pawl/kube/controller"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/store/kubestore"
	"github.com/pawl-dev/pawl/workflow"
)

// MPDServed reports whether the API server knows MPDClusters.
func MPDServed(mapper apimeta.RESTMapper) (bool, error) {
	_, err := mapper.RESTMapping(mpdKind.GroupKind(), mpdKind.Version)
	if apimeta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

// SetupMPD adds the controller of MPDClusters to a manager.
func SetupMPD(m *controller.Manager, o *sharedstorage.Operator, h *MPDClusterStore, site *Site, engine *workflow.Engine, workers int) error {
	requests := []string{interruptRecover, cancelledKey}
	for theirs, ours := range mpdRequests {
		requests = append(requests, theirs)
		if prefixed := sharedstorage.Prefix + ours; !slices.Contains(requests, prefixed) {
			requests = append(requests, prefixed)
		}
	}
	runs, err := controller.RunsOf(engine)
	if err != nil {
		return err
	}
	watches, err := site.watches(m, MPDKind)
	if err != nil {
		return err
	}
	s := &mpdServer{operator: o, home: h, engine: engine, runs: runs, events: m.Events("mpdcluster"), now: time.Now}
	return controller.Setup(m, controller.Controller[*mpd.MPDCluster]{
		Name: "mpdcluster", For: &mpd.MPDCluster{}, Reconcile: restoring(m.GetClient(), site, m.Events("mpdcluster"), func() *mpd.MPDCluster { return &mpd.MPDCluster{} }, h.mine, s.reconcile), Requests: requests, Signals: o.Listen, Workers: workers,
		Owns: []client.Object{&corev1.Pod{}, &appsv1.Deployment{}}, Watches: watches,
	})
}

type mpdServer struct {
	operator *sharedstorage.Operator
	home     *MPDClusterStore
	engine   *workflow.Engine
	runs     *controller.Runs
	events   controller.Events
	now      func() time.Time
}

// reconcile makes a pass as the operator does, and carries out what only these
// objects ask for: recover, cancelled, wishes that are done.
func (s *mpdServer) reconcile(ctx context.Context, ref control.Ref) outcome.Outcome {
	c, err := s.home.Load(ctx, port.Ref{Namespace: ref.Namespace, Name: ref.Name})
	if errors.Is(err, control.NotFound) {
		return outcome.Done()
	}
	if err != nil {
		return outcome.Fail(err)
	}
	if !s.home.mine(c.Version.(*controller.Draft[*mpd.MPDCluster]).Object) {
		return outcome.Done() // another operator's
	}
	if err := s.asked(ctx, c, ref); err != nil {
		return outcome.Fail(err)
	}
	if err := s.askedOfRun(ctx, ref); err != nil {
		return outcome.Fail(err)
	}
	out := s.operator.Reconcile(ctx, ref)
	if out.IsFail() {
		return out
	}
	if c, err = s.home.Load(ctx, port.Ref{Namespace: ref.Namespace, Name: ref.Name}); err != nil {
		if errors.Is(err, control.NotFound) {
			return out
		}
		return outcome.Fail(err)
	}
	if err := settleWishes(ctx, s.home.objects.Client, c.Version.(*controller.Draft[*mpd.MPDCluster]).Object, &c.Status); err != nil {
		return outcome.Fail(err)
	}
	return out
}

// askedOfRun carries out what annotations ask of the run, such as pawl.dev/pause.
// The answer stands in our status, as that of all other requests.
func (s *mpdServer) askedOfRun(ctx context.Context, ref control.Ref) error {
	key := client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}
	obj := &mpd.MPDCluster{}
	if err := s.home.objects.Client.Get(ctx, key, obj); err != nil || !kubestore.HasRequests(obj.Annotations) {
		return client.IgnoreNotFound(err)
	}
	obj = &mpd.MPDCluster{} // a cache may be behind
	if err := s.home.objects.Live.Get(ctx, key, obj); err != nil {
		return client.IgnoreNotFound(err)
	}
	c, err := s.home.Load(ctx, port.Ref{Namespace: ref.Namespace, Name: ref.Name})
	if err != nil {
		return err
	}
	return s.runs.Accept(ctx, s.home.objects.Client, MPDKind, obj, c.Status.LastRequest, func(a kubestore.Answer) error {
		s.events.TellRefusal(obj, a)
		c, err := s.home.Load(ctx, port.Ref{Namespace: ref.Namespace, Name: ref.Name})
		if errors.Is(err, control.NotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		record := a.Record(s.now())
		c.Status.LastRequest = &record
		return s.home.Save(ctx, c)
	})
}
