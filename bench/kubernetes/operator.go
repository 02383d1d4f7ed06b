package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/pawl-dev/pawl/kube/controller"
	kuberuns "github.com/pawl-dev/pawl/kube/runstore"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/kube"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/workflow"
)

// operate runs the operator as `pawl operator` does, in this process and with other ports.
// stop ends it and waits for it.
func operate(ctx context.Context, config *rest.Config, ports port.Ports) (stop func() error, err error) {
	scheme, err := kube.Scheme()
	if err != nil {
		return nil, err
	}
	// The default renewal interval, but leases last longer than this machine is busy.
	m, err := controller.NewManager(config, controller.Options{Scheme: scheme, LeaseDuration: 2 * time.Minute, RenewDeadline: 90 * time.Second})
	if err != nil {
		return nil, err
	}
	cache, err := kube.NewCache(m)
	if err != nil {
		return nil, err
	}
	// No pod is restarted: only the ports create pods.
	site, err := kube.NewPlacement(kube.Options{Client: cache.Client(), Live: m.Live(), Image: "none"})
	if err != nil {
		return nil, err
	}
	served, err := sharedstorage.New(sharedstorage.Options{
		Store: kube.NewClusterStore(cache.Client(), m.Live()), Ports: ports, Version: "15", Event: kube.EventWriter(m.Events("sharedstorage")),
	})
	if err != nil {
		return nil, err
	}
	opening, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	store, err := kuberuns.Open(opening, kuberuns.Options{Config: config, Owner: owner})
	if err != nil {
		return nil, err
	}
	engine, err := served.Engine(store, workflow.Options{Object: served.Object, Lease: 2 * time.Minute, Logger: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = errors.Join(kube.Controllers{Manager: m, Cache: cache, Operator: served, Placement: site, Engine: engine}.Setup(), m.Add(leaderRunnable{engine.Serve}))
	}
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	running, halt := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- m.Start(running) }()
	return func() error {
		halt()
		return errors.Join(<-ended, store.Close())
	}, nil
}

// leaderRunnable runs while this operator is the leader.
type leaderRunnable struct{ serve func(context.Context) error }

var _ manager.LeaderElectionRunnable = leaderRunnable{}

// Start implements manager.Runnable.
func (l leaderRunnable) Start(ctx context.Context) error { return l.serve(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (leaderRunnable) NeedLeaderElection() bool { return true }
