package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/test/pgtraffic"
)

// Acts returns all acts in order.
func (d *Demo) Acts() []Act {
	acts := []Act{
		{Name: "Install", Title: "Install Pawl", do: d.install},
		{Name: "Create", Title: "One writer, two readers that stream from it", do: d.create},
		{Name: "Switch", Title: "Switch the writer, while a client commits rows", do: d.change},
		{Name: "Pause", Title: "Another class: paused in the middle, and resumed", do: d.pause},
		{Name: "Failover", Title: "The writer's pod is deleted by force: it comes back as the writer, or a reader takes over", do: d.failover},
		{Name: "Crash", Title: "A third reader; the leading operator is killed in the middle", do: d.crash},
		{Name: "MPDCluster", Title: "A cluster of PolarDB Stack's kind, by the same operator", do: d.mpd},
		{Name: "Tell", Title: "What Kubernetes reports", do: d.summarize},
		{Name: "Rows", Title: "All this time a client wrote: is every row there whose commit was answered?", do: d.rows},
		{Name: "Delete", Title: "Delete: pods and secrets go, claims where the cluster does not keep them", do: d.remove},
	}
	if d.o.Keep {
		acts[len(acts)-1] = Act{Name: "Keep", Title: "It keeps running", do: d.keep}
	}
	return acts
}

func (d *Demo) install(ctx context.Context) error {
	return steps(
		func() error { return d.kubectl(ctx, "apply", "-f", "deploy/mpd") }, // before the operator starts: it checks only once
		func() error { return d.apply(ctx, "deploy/install.yaml", ownAddress) },
		func() error {
			return d.kubectl(ctx, "-n", system, "rollout", "status", "deployment/pawl", "--timeout=3m")
		},
		func() error { return d.kubectl(ctx, "-n", system, "get", "pods,leases") },
	)
}

// ownAddress makes each operator listen at the address of its pod: pods of the fake
// kubelet share one network.
func ownAddress(manifest string) (string, error) {
	const env, listen = "          env:\n", "--listen=:7296"
	if !strings.Contains(manifest, env) || !strings.Contains(manifest, listen) {
		return "", errors.New("deploy/install.yaml has no operator that listens at :7296")
	}
	manifest = strings.Replace(manifest, listen, "--listen=$(POD_IP):7296", 1)
	return strings.Replace(manifest, env, env+"            - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}\n", 1), nil
}

func (d *Demo) create(ctx context.Context) error {
	began := time.Now()
	return steps(
		func() error {
			return d.kubectl(ctx, "apply", "-f", "examples/sharedstorage/classes.yaml", "-f", "examples/sharedstorage/cluster.yaml")
		},
		func() error {
			return d.kubectl(ctx, "wait", "--for=condition=Ready", "ssc/orders", "--timeout=4m")
		},
		func() error {
			d.facts.Ready = time.Since(began)
			_, err := d.awaitRunning(ctx, 2, nil)
			return err
		},
		func() error { return d.kubectl(ctx, "get", "ssc,pods,pvc") },
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
	return steps(
		func() error { return d.kubectl(ctx, "annotate", "ssc", "orders", "pawl.dev/switch-writer=2") },
		func() error {
			_, err := d.awaitRunning(ctx, 2, writerIs("2"))
			return err
		},
		func() error { return d.kubectl(ctx, "get", "ssc", "orders", "-o", "wide") },
		func() error {
			d.facts.Switch = d.writer.MaxPause()
			d.print("the client waited for at most %s", d.facts.Switch.Round(time.Millisecond))
			return nil
		},
	)
}

// pause pauses a change of the class while a temporary reader is created.
func (d *Demo) pause(ctx context.Context) error {
	var run string
	return steps(
		func() error {
			return d.kubectl(ctx, "patch", "ssc", "orders", "--type=merge", "-p", `{"spec":{"class":{"name":"wide"}}}`)
		},
		func() (err error) {
			run, err = d.awaitRun(ctx, "ModifyClass")
			return err
		},
		func() error { return d.kubectl(ctx, "pawl", "pause", short(run), "--reason", "lunch") },
		func() error {
			return d.kubectl(ctx, "wait", "--for=condition=Interrupted", "ssc/orders", "--timeout=2m")
		},
		func() error { return d.kubectl(ctx, "pawl", "describe", "ssc", "orders") },
		func() error { return d.kubectl(ctx, "pawl", "resume", short(run), "--wait", "4m") },
		func() error {
			_, err := d.awaitRunning(ctx, 2, classIs("wide"))
			return err
		},
		func() error { return d.kubectl(ctx, "get", "ssc", "orders", "-o", "wide") },
	)
}

func (d *Demo) failover(ctx context.Context) error {
	c, err := d.awaitRunning(ctx, 2, nil)
	if err != nil {
		return err
	}
	old := c.Status.Instances[c.Status.Writer]
	d.writer.MaxPause()
	return steps(
		func() error { return d.until(ctx, "the manager may fail over without loss", d.checkFailoverSafe) },
		func() error { return d.kubectl(ctx, "delete", "pod", old.Name, "--grace-period=0", "--force") },
		func() error {
			_, err := d.awaitRunning(ctx, 2, writerIsNot(old.Name, old.Address))
			return err
		},
		func() error { return d.kubectl(ctx, "get", "ssc", "orders", "-o", "wide") },
		func() error {
			d.facts.Failover = d.writer.MaxPause()
			d.print("the client waited for at most %s", d.facts.Failover.Round(time.Millisecond))
			return nil
		},
	)
}

// crash kills the leader while it adds a reader.
func (d *Demo) crash(ctx context.Context) error {
	d.writer.MaxPause()
	var run string
	return steps(
		func() error {
			return d.kubectl(ctx, "patch", "ssc", "orders", "--type=merge", "-p", `{"spec":{"readers":3}}`)
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
		func() error { return d.kubectl(ctx, "-n", system, "get", "pods,leases") },
		func() error { return d.kubectl(ctx, "pawl", "history", short(run)) },
		func() error {
			d.facts.ScaleCrash = d.writer.MaxPause()
			d.print("the client waited for at most %s", d.facts.ScaleCrash.Round(time.Millisecond))
			return nil
		},
	)
}

func (d *Demo) mpd(ctx context.Context) error {
	return steps(
		func() error { return d.kubectl(ctx, "apply", "-f", "examples/sharedstorage/mpdcluster.yaml") },
		func() error {
			return d.kubectl(ctx, "wait", "--for=jsonpath={.status.clusterStatus}=Running", "mpdcluster/polar", "--timeout=4m")
		},
		func() error { return d.kubectl(ctx, "get", "mpdcluster") },
	)
}

func (d *Demo) summarize(ctx context.Context) error {
	return steps(
		func() error { return d.kubectl(ctx, "get", "pawl") },
		func() error { return d.kubectl(ctx, "pawl", "get") },
		func() error { return d.kubectl(ctx, "describe", "ssc", "orders") },
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
		err = d.until(ctx, "instance "+id+" has all rows", func(ctx context.Context) error {
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
	d.print("%d commits were answered, and all of these rows are on all %d instances", d.facts.Rows, len(c.Status.Instances))
	return nil
}

func (d *Demo) remove(ctx context.Context) error {
	return steps(
		func() error {
			return d.kubectl(ctx, "delete", "ssc/orders", "mpdcluster/polar", "--timeout=4m")
		},
		func() error {
			return d.until(ctx, "nothing is left", func(ctx context.Context) error {
				left, err := d.runQuietly(ctx, "get", "pods,deploy,svc,secrets,leases", "-l", "pawl.dev/cluster", "-o", "name")
				if err == nil && left != "" {
					err = errors.New(strings.ReplaceAll(left, "\n", " "))
				}
				return err
			})
		},
		func() error { return d.kubectl(ctx, "get", "ssc,mpdcluster,pods,pvc") },
	)
}

func (d *Demo) keep(context.Context) error {
	d.print("$ export KUBECONFIG=%s PATH=%s/bin:$PATH\n$ kubectl get ssc,pods\nCtrl-C ends it.", d.plane.Kubeconfig(), d.o.Root)
	return nil
}
