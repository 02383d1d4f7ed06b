package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/view"
)

func (a verbs) hibernateCommand() *cobra.Command {
	var q asking
	cmd := a.verb("hibernate CLUSTER", "End all instances of a cluster and keep its data, until wake",
		"  pawl pg hibernate orders --dry-run\n  pawl pg hibernate orders -y --wait 5m", cobra.ExactArgs(1), func(ctx context.Context, _ *cobra.Command, c *cluster, _ []string) error {
			return a.turn(ctx, c, true, q)
		})
	cmd.Long = `Sets spec.hibernated to true. The operator ends the cluster manager, the readers, and at last the
writer, which flushes everything. Claims (standalone: folders), Services and the backups stay.

With --wait: exit code 0 when the cluster is Hibernated, 3 when the time is over, 4 when its run
is paused.`
	q.flags(cmd)
	return cmd
}

func (a verbs) wakeCommand() *cobra.Command {
	var q asking
	cmd := a.verb("wake CLUSTER", "Start the instances of a hibernated cluster again",
		"  pawl pg wake orders -y --wait 5m", cobra.ExactArgs(1), func(ctx context.Context, _ *cobra.Command, c *cluster, _ []string) error {
			return a.turn(ctx, c, false, q)
		})
	cmd.Long = "Sets spec.hibernated to false. Exit codes with --wait are those of hibernate; 0 means that the cluster is Running."
	q.flags(cmd)
	return cmd
}

// turning says what hibernating or waking does.
func (c *cluster) turning(sleep bool) []string {
	n := cli.CountText(len(c.status.Instances), "instance")
	switch {
	case sleep == c.spec.Hibernated:
		return []string{fmt.Sprintf("spec.hibernated is %t already: nothing changes", sleep)}
	case sleep:
		return []string{
			fmt.Sprintf("the cluster manager and all %s end, the readers first and the writer last; their sessions end", n),
			"the data stay, with claims or folders; no backup is taken, and nothing fails over",
			"other changes of the spec are done when the cluster wakes",
		}
	}
	first := "the instance that wrote last"
	for _, i := range c.instances() {
		if i.Name == c.status.Storage.Writer {
			first = fmt.Sprintf("instance %s (%s), which wrote last,", i.id, i.Name)
		}
	}
	return []string{
		fmt.Sprintf("%s starts and takes writes, then the others of all %s follow it; nothing is copied", first, n),
		"what was changed of class, version and parameters meanwhile is taken at once; failover is on when the readers are back",
	}
}

// turn says what hibernating or waking does, asks, and sets the field.
func (a verbs) turn(ctx context.Context, c *cluster, sleep bool, q asking) error {
	told := Told{Cluster: c.text(), Does: c.turning(sleep)}
	a.Say("%s", c.text())
	for _, line := range told.Does {
		a.Say("  %s", line)
	}
	if q.Dry {
		a.Say("dry run: nothing was changed")
		return a.tell(told)
	}
	if sleep != c.spec.Hibernated {
		if err := a.Confirm(q.Confirmation); err != nil {
			return err
		}
		o, err := control.Modify(ctx, c.objects, c.object.Ref, func(o *control.Object) error {
			spec := map[string]any{}
			if len(o.Spec) > 0 {
				if err := json.Unmarshal(o.Spec, &spec); err != nil {
					return fmt.Errorf("%s: %w", o.Ref, err)
				}
			}
			spec["hibernated"] = sleep
			var err error
			o.Spec, err = json.Marshal(spec)
			return err
		})
		if err != nil {
			return err
		}
		told.Changed = true
		if err := c.set(o); err != nil {
			return err
		}
	}
	if q.wait == 0 {
		a.Say("spec.hibernated is %t: pawl pg status shows it, --wait waits for it", sleep)
		return a.tell(told)
	}
	return a.turned(ctx, c, sleep, told, q.wait)
}

// turned waits until a cluster is Hibernated, or Running, or its run is paused, and prints each step.
func (a verbs) turned(ctx context.Context, c *cluster, sleep bool, told Told, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	changes := c.backend.Changes(ctx, "")
	tick := time.NewTicker(time.Second) // where changes are not told
	defer tick.Stop()
	printed := ""
	for {
		if exit, ended := c.arrived(sleep); ended {
			if err := a.tell(told); err != nil {
				return err
			}
			if exit == view.ExitDone {
				a.Say("%s is %s", c.text(), c.status.State)
			} else if at := meta.FindStatusCondition(c.status.Conditions, sharedstorage.InterruptedCondition); at != nil {
				a.Hint("pawl: %s: %s", c.status.State, at.Message)
			}
			return cli.End(exit)
		}
		if run := c.status.Run; run != nil && run.Step != "" && run.Flow+" at "+run.Step != printed {
			printed = run.Flow + " at " + run.Step
			a.Hint("  %s", printed)
		}
		select {
		case <-ctx.Done():
			a.Hint("pawl: not done yet: pawl pg status %s shows it", c.text())
			_ = a.tell(told) // the exit code tells the same
			return cli.End(view.ExitActive)
		case <-changes:
		case <-tick.C:
		}
		if err := c.read(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// arrived returns the exit code of a cluster that is where the spec wants it, or whose run is paused.
func (c *cluster) arrived(sleep bool) (exit int, ended bool) {
	state := machine.State(c.status.State)
	switch {
	case c.status.ObservedGeneration < c.object.Generation: // nobody has looked at it yet
		return view.ExitActive, false
	case state == sharedstorage.Interrupted:
		return view.ExitRemedy, true
	case sleep:
		return view.ExitDone, state == sharedstorage.Hibernated
	}
	return view.ExitDone, state == sharedstorage.Running && meta.IsStatusConditionTrue(c.status.Conditions, sharedstorage.ReadyCondition)
}
