package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/test/demo/stage"
	"github.com/pawl-dev/pawl/test/pgtraffic"
)

// Acts returns all acts in order.
func (d *Demo) Acts() []stage.Act {
	acts := []stage.Act{
		{Name: "Install", Title: "Install Pawl", Do: d.install},
		{Name: "Create", Title: "One writer, two readers that stream from it", Do: d.create},
		{Name: "Switch", Title: "Switch the writer, while a client commits rows", Do: d.change},
		{Name: "Pause", Title: "Another class: paused in the middle, and resumed", Do: d.pause},
		{Name: "Failover", Title: "The writer's pod is deleted by force: it comes back as the writer, or a reader takes over", Do: d.failover},
		{Name: "Crash", Title: "A third reader; the leading operator is killed in the middle", Do: d.crash},
		{Name: "MPDCluster", Title: "A cluster of PolarDB Stack's kind, by the same operator", Do: d.mpd},
		{Name: "Tell", Title: "What Kubernetes reports", Do: d.summarize},
		{Name: "Rows", Title: "All this time a client wrote: is every row there whose commit was answered?", Do: d.rows},
		{Name: "Delete", Title: "Delete: pods and secrets go, claims where the cluster does not keep them", Do: d.remove},
	}
	if d.Keep {
		acts[len(acts)-1] = stage.Act{Name: "Keep", Title: "It keeps running", Do: d.keep}
	}
	return acts
}

func (d *Demo) install(ctx context.Context) error {
	return stage.Steps(
		func() error { return d.Kubectl(ctx, "apply", "-f", "deploy/mpd") }, // before the operator starts: it checks only once
		func() error { return d.Install(ctx) },
		func() error { return d.Kubectl(ctx, "-n", system, "get", "pods,leases") },
	)
}

func (d *Demo) create(ctx context.Context) error {
	began := time.Now()
	return stage.Steps(
		func() error {
			return d.Kubectl(ctx, "apply", "-f", "examples/sharedstorage/classes.yaml", "-f", "examples/sharedstorage/cluster.yaml")
		},
		func() error {
			return d.Kubectl(ctx, "wait", "--for=condition=Ready", "ssc/orders", "--timeout=4m")
		},
		func() error {
			d.facts.Ready = time.Since(began)
			_, err := d.awaitRunning(ctx, 2, nil)
			return err
		},
		func() error { return d.Kubectl(ctx, "get", "ssc,pods,pvc") },
		func() error { return d.sql(ctx) },
		func() error {
			d.writer = pgtraffic.Start(d.route)
			return d.writer.Begun(ctx)
		},
	)
}

// sql shows that the writer accepts rows and the readers have them.
func (d *Demo) sql(ctx context.Context) error {
	c, err := d.cluster(ctx)
	if err != nil {
		return err
	}
	for id := range c.Status.Instances {
		i, err := d.instance(ctx, c, id)
		if err != nil {
			return err
		}
		if id == c.Status.Writer {
			err = d.psql(ctx, i, "SELECT application_name, state, sync_state FROM pg_stat_replication ORDER BY 1")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// change switches the writer.
func (d *Demo) change(ctx context.Context) error {
	d.writer.MaxPause()
	return stage.Steps(
		func() error { return d.Kubectl(ctx, "annotate", "ssc", "orders", "pawl.dev/switch-writer=2") },
		func() error {
			_, err := d.awaitRunning(ctx, 2, writerIs("2"))
			return err
		},
		func() error { return d.Kubectl(ctx, "get", "ssc", "orders", "-o", "wide") },
		func() error {
			d.facts.Switch = d.writer.MaxPause()
			d.Print("the client waited for at most %s", d.facts.Switch.Round(time.Millisecond))
			return nil
		},
	)
}

// pause pauses a change of the class while a reader is recreated.
func (d *Demo) pause(ctx context.Context) error {
	var run string
	return stage.Steps(
		func() error {
			return d.Kubectl(ctx, "patch", "ssc", "orders", "--type=merge", "-p", `{"spec":{"class":{"name":"wide"}}}`)
		},
		func() (err error) {
			run, err = d.awaitRun(ctx, "ModifyClass")
			return err
		},
		func() error { return d.Kubectl(ctx, "pawl", "pause", short(run), "--reason", "lunch") },
		func() error {
			return d.Kubectl(ctx, "wait", "--for=condition=Interrupted", "ssc/orders", "--timeout=2m")
		},
		func() error { return d.Kubectl(ctx, "pawl", "describe", "ssc", "orders") },
		func() error { return d.Kubectl(ctx, "pawl", "resume", short(run), "--wait", "4m") },
		func() error {
			_, err := d.awaitRunning(ctx, 2, classIs("wide"))
			return err
		},
		func() error { return d.Kubectl(ctx, "get", "ssc", "orders", "-o", "wide") },
	)
}

func (d *Demo) failover(ctx context.Context) error {
	c, err := d.awaitRunning(ctx, 2, nil)
	if err != nil {
		return err
	}
	old := c.Status.Instances[c.Status.Writer]
	d.writer.MaxPause()
	return stage.Steps(
		func() error { return d.Until(ctx, "the manager may fail over without loss", d.checkFailoverSafe) },
		func() error { return d.Kubectl(ctx, "delete", "pod", old.Name, "--grace-period=0", "--force") },
		func() error {
			_, err := d.awaitRunning(ctx, 2, writerIsNot(old.Name, old.Address))
			return err
		},
		func() error { return d.Kubectl(ctx, "get", "ssc", "orders", "-o", "wide") },
		func() error {
			d.facts.Failover = d.writer.MaxPause()
			d.Print("the client waited for at most %s", d.facts.Failover.Round(time.Millisecond))
			return nil
		},
	)
}

// crash kills the leader while it adds a reader.
func (d *Demo) crash(ctx context.Context) error {
	d.writer.MaxPause()
	var run string
	return stage.Steps(
		func() error {
			return d.Kubectl(ctx, "patch", "ssc", "orders", "--type=merge", "-p", `{"spec":{"readers":3}}`)
		},
		func() (err error) {
			run, err = d.awaitRun(ctx, "AddReaders")
			return err
		},
		func() error { return d.killLeader(ctx) },
		func() error {
			_, err := d.awaitRunning(ctx, 3, nil)
			return err
		},
		func() error { return d.Kubectl(ctx, "-n", system, "get", "pods,leases") },
		func() error { return d.Kubectl(ctx, "pawl", "history", short(run)) },
		func() error {
			d.facts.ScaleCrash = d.writer.MaxPause()
			d.Print("the client waited for at most %s", d.facts.ScaleCrash.Round(time.Millisecond))
			return nil
		},
	)
}

func (d *Demo) mpd(ctx context.Context) error {
	return stage.Steps(
		func() error { return d.Kubectl(ctx, "apply", "-f", "examples/sharedstorage/mpdcluster.yaml") },
		func() error {
			return d.Kubectl(ctx, "wait", "--for=jsonpath={.status.clusterStatus}=Running", "mpdcluster/polar", "--timeout=4m")
		},
		func() error { return d.Kubectl(ctx, "get", "mpdcluster") },
	)
}

func (d *Demo) summarize(ctx context.Context) error {
	return stage.Steps(
		func() error { return d.Kubectl(ctx, "get", "pawl") },
		func() error { return d.Kubectl(ctx, "pawl", "get") },
		func() error { return d.Kubectl(ctx, "describe", "ssc", "orders") },
	)
}

// rows queries every instance.
func (d *Demo) rows(ctx context.Context) error {
	d.facts.Rows = d.writer.Stop()
	c, err := d.awaitRunning(ctx, 3, nil)
	if err != nil {
		return err
	}
	for id := range c.Status.Instances {
		i, err := d.instance(ctx, c, id)
		if err != nil {
			return err
		}
		missing := 0
		err = d.Until(ctx, "instance "+id+" has all rows", func(ctx context.Context) error {
			if missing, err = d.writer.Missing(ctx, i.dsn()); err == nil && missing > 0 {
				err = fmt.Errorf("%d rows are missing", missing)
			}
			return err
		})
		d.facts.Missing += missing
		if err != nil {
			return err
		}
	}
	d.Print("%d commits were answered, and all of these rows are on all %d instances", d.facts.Rows, len(c.Status.Instances))
	return nil
}

func (d *Demo) remove(ctx context.Context) error {
	return stage.Steps(
		func() error {
			return d.Kubectl(ctx, "delete", "ssc/orders", "mpdcluster/polar", "--timeout=4m")
		},
		func() error {
			return d.Until(ctx, "nothing is left", func(ctx context.Context) error {
				left, err := d.Quietly(ctx, "get", "pods,deploy,svc,secrets,leases", "-l", "pawl.dev/cluster", "-o", "name")
				if err == nil && left != "" {
					err = errors.New(strings.ReplaceAll(left, "\n", " "))
				}
				return err
			})
		},
		func() error { return d.Kubectl(ctx, "get", "ssc,mpdcluster,pods,pvc") },
	)
}

func (d *Demo) keep(context.Context) error {
	d.Print("$ export KUBECONFIG=%s PATH=%s/bin:$PATH\n$ kubectl get ssc,pods\nCtrl-C ends it.", d.Plane.Kubeconfig(), d.Root)
	return nil
}
