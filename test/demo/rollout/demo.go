// Package rollout demonstrates Rollouts: a real control plane, Pawl from deploy/install.yaml, the five
// members of examples/rollout as real etcd processes, and a client that writes all the time.
//
// `make demo-rollout` shows it to people; the end-to-end test runs the same acts and checks with
// [Demo.Facts] that no key was lost.
package rollout

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/test/controlplane"
	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
	"github.com/pawl-dev/pawl/test/demo/stage"
	"github.com/pawl-dev/pawl/test/etcdproc"
)

const (
	namespace = "default"
	name      = "etcd"
	members   = 5
)

// Facts are the measurements of the demo.
type Facts struct {
	Acked, Lost int           // keys that were acknowledged, and how many of them are not there
	Gap         time.Duration // the longest time between two acknowledgements
	Least       int           // the smallest number of members that answered at once
	Rounds      int           // how often all were asked
}

// Demo is a control plane with Pawl in it.
type Demo struct {
	*stage.Stage
	dir       string
	writer    *etcdproc.Writer
	answering *etcdproc.Answering
	facts     Facts
}

// New starts the control plane.
func New(ctx context.Context, o stage.Options) (*Demo, error) {
	bin, err := filepath.Abs(filepath.Join(o.Root, "bin"))
	if err != nil {
		return nil, err
	}
	images, err := controlplane.Images(bin)
	if err != nil {
		return nil, err
	}
	d := &Demo{}
	if d.dir, err = os.MkdirTemp("", "pawl-etcd-"); err != nil {
		return nil, err
	}
	etcd, err := Images(bin, d.dir)
	if err == nil {
		err = os.Chmod(d.dir, 0o755) //nolint:gosec // members run as another user
	}
	for image, is := range etcd {
		images[image] = is
	}
	if err == nil {
		d.Stage, err = stage.New(ctx, o, controlplane.Options{Endpoints: true, Kubelet: kubelet.Options{Mode: kubelet.Process, Images: images, DNS: true}})
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(d.dir))
	}
	return d, nil
}

// Facts returns the measurements so far.
func (d *Demo) Facts() Facts { return d.facts }

// Close stops all processes.
func (d *Demo) Close() error {
	if d.writer != nil {
		d.writer.Close()
	}
	if d.answering != nil {
		d.answering.Stop()
	}
	return errors.Join(d.Stage.Close(), os.RemoveAll(d.dir))
}

// Acts returns all acts in order.
func (d *Demo) Acts() []stage.Act {
	acts := []stage.Act{
		{Name: "Install", Title: "Install Pawl, with the right to run commands in pods (chart: rollout.exec=true)", Do: func(ctx context.Context) error {
			return d.Install(ctx, stage.RolloutExec)
		}},
		{Name: "Create", Title: "A StatefulSet of five etcd members, a Rollout that holds it, and a client that writes", Do: d.create},
		{Name: "Change", Title: "Another version: held but for the canary", Do: d.change},
		{Name: "Approve", Title: "The others: the leader last, after a handover", Do: d.approve},
		{Name: "Broken", Title: "A broken version is taken back by itself", Do: d.broken},
		{Name: "Keys", Title: "All this time a client wrote: is every key there that was acknowledged?", Do: d.keys},
	}
	if d.Keep {
		acts = append(acts, stage.Act{Name: "Keep", Title: "It keeps running", Do: d.keep})
	}
	return acts
}

func (d *Demo) create(ctx context.Context) error {
	return stage.Steps(
		func() error { return d.Kubectl(ctx, "apply", "-f", "examples/rollout/etcd.yaml") },
		func() error { return d.Kubectl(ctx, "rollout", "status", "sts/etcd", "--timeout=4m") },
		func() error {
			return d.Kubectl(ctx, "wait", "prol/etcd", "--for=condition=Ready", "--timeout=1m")
		},
		func() error { return d.Kubectl(ctx, "get", "prol,sts,pods", "-o", "wide") },
		func() (err error) {
			urls, dial := URLs(namespace, name, members), Dial(d.Plane.Kubelet)
			d.answering = etcdproc.StartAnswering(dial, urls...)
			if d.writer, err = etcdproc.NewWriterThrough(dial, "/demo/", urls...); err != nil {
				return err
			}
			return d.Until(ctx, "a key is acknowledged", func(context.Context) error {
				if r := d.writer.Report(); len(r.Acked) == 0 {
					return fmt.Errorf("none yet: %w", r.LastErr)
				}
				return nil
			})
		},
	)
}

func (d *Demo) change(ctx context.Context) error {
	return stage.Steps(
		func() error { return d.Kubectl(ctx, "set", "image", "sts/etcd", "etcd=etcd:3.7.3") },
		func() error { return d.Show(ctx, "pawl", "plan", "rollout", "etcd") },
		func() error { return d.Kubectl(ctx, "wait", "prol/etcd", "--for=condition=Paused") },
		func() error { return d.Kubectl(ctx, "get", "prol", "etcd") },
		func() error { return d.versions(ctx) },
	)
}

func (d *Demo) approve(ctx context.Context) error {
	return stage.Steps(
		func() error {
			return d.Show(ctx, "pawl", "rollout", "approve", "etcd", "--reason", "smoke tests passed")
		},
		func() error { return d.Show(ctx, "pawl", "watch", "rollout", "etcd") },
		func() error { return d.versions(ctx) },
	)
}

func (d *Demo) broken(ctx context.Context) error {
	return stage.Steps(
		func() error { return d.Kubectl(ctx, "set", "image", "sts/etcd", "etcd=etcd:broken") },
		func() error {
			return d.Kubectl(ctx, "wait", "prol/etcd", "--for=condition=RolledBack", "--timeout=2m")
		},
		func() error { return d.Kubectl(ctx, "get", "prol", "etcd", "-o", "wide") },
		func() error { return d.versions(ctx) },
		func() error { return d.Show(ctx, "pawl", "history", "rollout", "etcd") },
	)
}

// versions shows which pod has which image, the oldest pod first: that is the order in which they went.
func (d *Demo) versions(ctx context.Context) error {
	return d.Kubectl(ctx, "get", "pods", "-l", "app=etcd", "--sort-by=.metadata.creationTimestamp",
		"-o", "custom-columns=POD:.metadata.name,IMAGE:.spec.containers[0].image,READY:.status.containerStatuses[0].ready,CREATED:.metadata.creationTimestamp")
}

// keys reads every acknowledged key, with a client and through each member.
func (d *Demo) keys(ctx context.Context) error {
	report := d.writer.Stop()
	lost, err := d.writer.Lost(ctx)
	if err != nil {
		return err
	}
	d.facts = Facts{Acked: len(report.Acked), Lost: len(lost), Gap: report.Gap}
	d.facts.Least, d.facts.Rounds = d.answering.Least()
	d.Print("%d keys were acknowledged; %d of them are lost", d.facts.Acked, d.facts.Lost)
	d.Print("the longest time without an answer was %s", d.facts.Gap.Round(time.Millisecond))
	d.Print("the fewest members that answered at once were %d of %d", d.facts.Least, members)
	if d.facts.Lost > 0 {
		return errors.New("acknowledged keys are lost")
	}
	return d.agree(ctx)
}

// agree reports members that run another version than the others, or are not ready.
func (d *Demo) agree(ctx context.Context) error {
	pods, err := d.Plane.Client().CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: "app=etcd"})
	if err != nil {
		return err
	}
	var odd []string
	for _, p := range pods.Items {
		ready := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		if image := p.Spec.Containers[0].Image; !ready || image != "etcd:3.7.3" {
			odd = append(odd, p.Name+" "+image)
		}
	}
	if len(pods.Items) != members || odd != nil {
		return fmt.Errorf("of %d members these are not what they should be: %s", len(pods.Items), strings.Join(odd, ", "))
	}
	return nil
}

func (d *Demo) keep(context.Context) error {
	d.Print("$ export KUBECONFIG=%s PATH=%s/bin:$PATH\n$ kubectl get prol,pods\nCtrl-C ends it.", d.Plane.Kubeconfig(), d.Root)
	return nil
}
