// Package kube demonstrates Pawl on Kubernetes: a real control plane, the manifests
// of deploy/ and examples/, pods that are processes of this machine, and PostgreSQL
// in them.
//
//	d, err := kube.New(ctx, stage.Options{Root: root, Out: os.Stdout})
//	defer d.Close()
//	for _, act := range d.Acts() {
//		err = d.Play(ctx, act)
//	}
//
// `make demo-kubernetes` shows it to people; the end-to-end test runs the same acts
// and checks with [Demo.Facts] that no row was lost.
package kube

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mpd "github.com/pawl-dev/pawl/kube/api/mpd/v1"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
	"github.com/pawl-dev/pawl/test/demo/stage"
	"github.com/pawl-dev/pawl/test/pgtraffic"
)

// Facts are the measurements of the demo.
type Facts struct {
	Ready                        time.Duration // from kubectl apply
	Rows, Missing                int           // answered commits, and how many of them some instance lacks
	Switch, Failover, ScaleCrash time.Duration // longest pauses of the writing client
}

// Demo is a control plane with Pawl in it.
type Demo struct {
	*stage.Stage
	client client.Client
	writer *pgtraffic.Writer
	facts  Facts
}

// New starts the control plane.
func New(ctx context.Context, o stage.Options) (*Demo, error) {
	images, err := controlplane.Images(filepath.Join(o.Root, "bin"))
	if err != nil {
		return nil, err
	}
	if _, ok := images["postgres:15"]; !ok {
		return nil, errors.New("PostgreSQL 15 of Debian is not installed: apt-get install postgresql-15")
	}
	s := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(s), v1alpha1.AddToScheme(s), mpd.AddToScheme(s)); err != nil {
		return nil, err
	}
	d := &Demo{}
	d.Stage, err = stage.New(ctx, o, controlplane.Options{NodeGrace: 8 * time.Second, Kubelet: kubelet.Options{
		Mode: kubelet.Process, Images: images, Users: controlplane.Users(), Lease: 2 * time.Second,
	}})
	if err != nil {
		return nil, err
	}
	d.Path = append(d.Path, "/usr/lib/postgresql/15/bin")
	if d.client, err = client.New(d.Plane.Config(), client.Options{Scheme: s}); err != nil {
		return nil, errors.Join(err, d.Plane.Stop())
	}
	return d, nil
}

// Facts returns the measurements so far.
func (d *Demo) Facts() Facts { return d.facts }

// Close stops all processes.
func (d *Demo) Close() error {
	if d.writer != nil {
		d.writer.Stop()
	}
	return d.Stage.Close()
}
