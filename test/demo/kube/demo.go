// Package kube demonstrates Pawl on Kubernetes: a real control plane, the manifests
// of deploy/ and examples/, pods that are processes of this machine, and PostgreSQL
// in them.
//
//	d, err := kube.New(ctx, kube.Options{Root: root, Out: os.Stdout})
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
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	mpd "github.com/pawl-dev/pawl/kube/api/mpd/v1"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
	"github.com/pawl-dev/pawl/test/pgtraffic"
)

// Options of a demo. Root and Out are required.
type Options struct {
	Root string // of the repository; its bin/ holds the programs
	Out  io.Writer
	Keep bool // keep the clusters after the last act, and the plane in Wait
}

// Facts are the measurements of the demo.
type Facts struct {
	Ready                        time.Duration // from kubectl apply
	Rows, Missing                int           // answered commits, and how many of them some instance lacks
	Switch, Failover, ScaleCrash time.Duration // longest pauses of the writing client
}

// Demo is a control plane with Pawl in it.
type Demo struct {
	o      Options
	plane  *controlplane.Plane
	client client.Client
	writer *pgtraffic.Writer
	facts  Facts
}

// Act is one part of the demo. The error of its function describes an unexpected result.
type Act struct {
	Name, Title string
	do          func(context.Context) error
}

// New starts the control plane.
func New(ctx context.Context, o Options) (*Demo, error) {
	root, err := filepath.Abs(o.Root)
	if err != nil {
		return nil, err
	}
	o.Root = root
	bin := filepath.Join(root, "bin")
	images, err := controlplane.Images(bin)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(bin, "pawl")); err != nil {
		return nil, fmt.Errorf("%w; run `make build`", err)
	}
	if _, ok := images["postgres:15"]; !ok {
		return nil, errors.New("PostgreSQL 15 of Debian is not installed: apt-get install postgresql-15")
	}
	s := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(s), v1alpha1.AddToScheme(s), mpd.AddToScheme(s)); err != nil {
		return nil, err
	}
	d := &Demo{o: o}
	began := time.Now()
	d.plane, err = controlplane.StartContext(ctx, controlplane.Options{Bin: bin, NodeGrace: 8 * time.Second, Kubelet: kubelet.Options{
		Mode: kubelet.Process, Images: images, Users: controlplane.Users(), Lease: 2 * time.Second,
	}})
	if err != nil {
		return nil, err
	}
	d.print("A Kubernetes control plane of three nodes runs (%s).", time.Since(began).Round(100*time.Millisecond))
	d.print("$ export KUBECONFIG=%s", d.plane.Kubeconfig())
	if d.client, err = client.New(d.plane.Config(), client.Options{Scheme: s}); err != nil {
		return nil, errors.Join(err, d.plane.Stop())
	}
	return d, nil
}

// Play runs an act.
func (d *Demo) Play(ctx context.Context, a Act) error {
	d.print("\n── %s", a.Title)
	if err := a.do(ctx); err != nil {
		return fmt.Errorf("%s: %w", a.Title, err)
	}
	return nil
}

// Facts returns the measurements so far.
func (d *Demo) Facts() Facts { return d.facts }

// Wait keeps the plane until ctx ends.
func (d *Demo) Wait(ctx context.Context) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if err := d.plane.Check(); err != nil {
				return err
			}
		}
	}
}

// Close stops all processes.
func (d *Demo) Close() error {
	if d.writer != nil {
		d.writer.Stop()
	}
	return d.plane.Stop()
}
