package demo

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/pawl-dev/pawl/test/etcdproc"
)

// Act is one part of the demo.
type Act struct {
	Name, Title string
	do          func(context.Context) error
	out         func(format string, args ...any)
}

// Play runs the act. The error describes an unexpected result.
func (a Act) Play(ctx context.Context) error {
	a.out("\n── %s", a.Title)
	if err := a.do(ctx); err != nil {
		return fmt.Errorf("%s: %w", a.Title, err)
	}
	return nil
}

// Acts returns all acts in order.
func (d *Demo) Acts() []Act {
	acts := []Act{
		{Name: "Create", Title: "Three members, started from YAML", do: d.create},
		{Name: "ScaleOut", Title: "Scale to five: each member a learner first, then a voter", do: d.scaleOut},
		{Name: "Replace", Title: "A member is killed with -9: seen, faulted, healed", do: d.replace},
		{Name: "Restart", Title: "Rolling restart, paused and resumed half-way", do: d.restart},
		{Name: "Cancel", Title: "Scale to seven, and think better of it: cancel --undo", do: d.cancel},
		{Name: "Crash", Title: "Scale to seven, and kill -9 pawl in the middle", do: d.crash},
		{Name: "ScaleIn", Title: "Back to three", do: d.scaleIn},
		{Name: "History", Title: "What happened", do: d.summarize},
		{Name: "Keys", Title: "All this time a client wrote: is every acknowledged key there?", do: d.keys},
		{Name: "Delete", Title: "Delete: processes and data go", do: d.remove},
	}
	if d.options.Keep {
		acts[len(acts)-1] = Act{Name: "Keep", Title: "It keeps running", do: d.keep}
	}
	for i := range acts {
		acts[i].out = d.print
	}
	return acts
}

func (d *Demo) create(ctx context.Context) error {
	return steps(
		func() error { return d.pawl(ctx, 0, "apply", "-f", "cluster.yaml", "--wait", "2m") },
		func() error { return d.pawl(ctx, 0, "get", kind) },
		func() error { return d.etcdctl(ctx, "member", "list", "-w", "table") },
		func() error { return d.expect(ctx, 3) },
		func() (err error) {
			d.writer, err = etcdproc.NewWriter("/demo/", d.clients(3)...)
			return err
		},
	)
}

func (d *Demo) scaleOut(ctx context.Context) error {
	return steps(
		func() error { return d.Set("members", 5) },
		func() error { return d.pawl(ctx, 0, "apply", "-f", "cluster.yaml") },
		func() error {
			run, err := d.awaitStep(ctx, "ScalingOut", "Old/List")
			if err != nil {
				return err
			}
			return d.pawl(ctx, 0, "watch", short(run))
		},
		func() error { return d.awaitState(ctx, "Running") },
		func() error { return d.etcdctl(ctx, "member", "list", "-w", "table") },
		func() error { return d.expect(ctx, 5) },
	)
}

// replace kills a member and watches until another one with a new id has replaced it.
func (d *Demo) replace(ctx context.Context) error {
	const victim = name + "-2"
	before, err := d.members(ctx)
	if err != nil {
		return err
	}
	replaced := func(ctx context.Context) (bool, error) {
		o, err := d.object(ctx)
		if err != nil || o.Status.State != "Running" || len(o.Status.Observed.Health.Lost) > 0 {
			return false, err
		}
		after, err := d.members(ctx)
		d.facts.Replaced = err == nil && after[victim].id != 0 && after[victim].id != before[victim].id
		return d.facts.Replaced, nil // etcd may have no leader for a moment
	}
	return steps(
		func() error {
			return d.watch(ctx, func() error {
				if err := d.Kill(victim); err != nil {
					return err
				}
				return d.until(ctx, within, victim+" is replaced", replaced)
			})
		},
		func() error {
			events, err := d.Ended(ctx, "RepairCluster")
			d.facts.Histories["RepairCluster"] = events
			return err
		},
		func() error {
			run, err := d.newest(ctx, "RepairCluster")
			if err != nil {
				return err
			}
			return d.pawl(ctx, 0, "history", short(run))
		},
		func() error { return d.pawl(ctx, 0, "explain", "MEMBER_LOST") },
		func() error { return d.expect(ctx, 5) },
	)
}

// restart pauses the flow while one member is down: the bracket starts the member again.
func (d *Demo) restart(ctx context.Context) error {
	restart := func() error {
		var run string
		return steps(
			func() error { return d.Set("revision", 2) },
			func() error { return d.pawl(ctx, 0, "apply", "-f", "cluster.yaml") },
			func() (err error) {
				run, err = d.awaitStep(ctx, "Restarting", "Restart["+name+"-2]/Down/Stop")
				return err
			},
			func() error {
				return d.pawl(ctx, 0, "pause", short(run), "--reason", "lunch")
			},
			func() error { return d.awaitState(ctx, "Interrupted") },
			func() error {
				return d.until(ctx, within, "all members are up while the run is paused", func(ctx context.Context) (bool, error) {
					d.facts.ReadyWhenHeld = d.Ready(ctx, 5)
					return d.facts.ReadyWhenHeld == 5, nil
				})
			},
			func() error { return d.pawl(ctx, 0, "get", kind) },
			func() error { return d.etcdctl(ctx, "endpoint", "health", "--cluster") },
			func() error { return d.pawl(ctx, 0, "resume", short(run), "--wait", "2m") },
			func() error { return d.awaitState(ctx, "Running") },
			func() error { return d.saveHistory(ctx, "RestartCluster", run) },
		)
	}
	fewest, err := d.fewestReady(ctx, 5, restart)
	if err != nil {
		return err
	}
	d.facts.FewestReady = fewest
	d.print("at every moment at least %d of 5 members answered", fewest)
	if fewest < 3 {
		return fmt.Errorf("only %d of 5 members were ready at once: the quorum was lost\n%s", fewest, d.facts.Worst)
	}
	return nil
}

// cancel cancels a flow that has added a learner: the learner is removed.
func (d *Demo) cancel(ctx context.Context) error {
	var run string
	return steps(
		func() error { return d.Set("members", 7) },
		func() error { return d.pawl(ctx, 0, "apply", "-f", "cluster.yaml") },
		func() (err error) {
			run, err = d.awaitStep(ctx, "ScalingOut", "Add["+name+"-6]/Join/Start")
			return err
		},
		func() error { return d.etcdctl(ctx, "member", "list", "-w", "table") },
		func() error {
			return d.pawl(ctx, 0, "cancel", short(run), "--undo", "--reason", "five are enough")
		},
		func() error { return d.saveHistory(ctx, "ScaleOut", run) },
		func() error { return d.awaitState(ctx, "Cancelled") },
		func() error { return d.etcdctl(ctx, "member", "list", "-w", "table") },
		func() error {
			err := d.expect(ctx, 5)
			d.facts.Undone = err == nil
			return err
		},
		func() error { return d.pawl(ctx, 0, "get", kind) },
		func() error { return d.Set("members", 5) },
		func() error { return d.pawl(ctx, 0, "apply", "-f", "cluster.yaml", "--wait", "1m") },
	)
}

// crash kills the server while the first of two members joins.
func (d *Demo) crash(ctx context.Context) error {
	var run string
	return steps(
		func() error { return d.Set("members", 7) },
		func() error { return d.pawl(ctx, 0, "apply", "-f", "cluster.yaml") },
		func() (err error) {
			run, err = d.awaitStep(ctx, "ScalingOut", "Add["+name+"-6]/Join/Start")
			return err
		},
		d.killServer,
		func() error { return d.startServer(ctx) },
		func() error { return d.pawl(ctx, 0, "apply", "-f", "cluster.yaml", "--wait", "2m") },
		func() error { return d.pawl(ctx, 0, "history", short(run)) },
		func() error { return d.saveHistory(ctx, "ScaleOut after the crash", run) },
		func() error { return d.etcdctl(ctx, "member", "list", "-w", "table") },
		func() error { return d.expect(ctx, 7) },
	)
}

func (d *Demo) scaleIn(ctx context.Context) error {
	return steps(
		func() error { return d.Set("members", 3) },
		func() error { return d.pawl(ctx, 0, "apply", "-f", "cluster.yaml", "--wait", "2m") },
		func() error { return d.expect(ctx, 3) },
	)
}

func (d *Demo) summarize(ctx context.Context) error {
	return steps(
		func() error { return d.pawl(ctx, 0, "get") },
		func() error { return d.pawl(ctx, 0, "history", kind, name) },
	)
}

// keys reads back the acknowledged keys.
func (d *Demo) keys(ctx context.Context) error {
	report := d.writer.Stop()
	client, err := connect(d.clients(3))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	lost, err := report.Lost(ctx, client)
	if err != nil {
		return err
	}
	d.facts.Acked, d.facts.Lost, d.facts.Unanswered, d.facts.LongestGap = len(report.Acked), len(lost), report.Unknown, report.Gap
	d.print("%d keys were acknowledged, %d of them are lost; %d writes had no answer; the longest gap between two acknowledgements was %s",
		len(report.Acked), len(lost), report.Unknown, report.Gap.Round(time.Millisecond))
	if len(lost) > 0 {
		return fmt.Errorf("%d acknowledged keys are lost, the first is %s", len(lost), report.Key(lost[0]))
	}
	return nil
}

func (d *Demo) remove(ctx context.Context) error {
	return steps(
		func() error { return d.Delete(ctx) },
		func() error { return d.pawl(ctx, 0, "get", kind) },
		func() error {
			left, err := filepath.Glob(filepath.Join(d.dir, "etcd", "*"))
			if err == nil && len(left) > 0 {
				err = fmt.Errorf("data is left: %v", left)
			}
			if n := d.Ready(ctx, 7); err == nil && n > 0 {
				err = fmt.Errorf("%d members still answer", n)
			}
			return err
		},
		func() error {
			d.print("\nmake demo KEEP=1 leaves the cluster running, to be played with.")
			return nil
		},
	)
}

func (d *Demo) keep(context.Context) error {
	d.kept = true
	d.print(`The server is process %d, its state is in %s.

  export PAWL_SERVER=http://%s ETCDCTL_ENDPOINTS=%s
  %s get %s
  %s edit %s %s
  kill -9 $(cat %s)

To end it:

  %s delete %s %s --wait && kill %d && rm -r %s`,
		d.process.Process.Pid, d.dir, d.server, d.Client(1), d.options.Pawl, kind, d.options.Pawl, kind, name,
		filepath.Join(d.dir, "etcd", name, name+"-1", "pid"), d.options.Pawl, kind, name, d.process.Process.Pid, d.dir)
	return nil
}

// steps runs functions until one fails.
func steps(all ...func() error) error {
	for _, step := range all {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// short returns an id in the form that pawl prints and accepts.
func short(id string) string { return id[:min(4, len(id))] }
