package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/control/request"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/view"
)

// asking says how a verb that changes a cluster asks.
type asking struct {
	cli.Confirmation
	wait time.Duration
}

func (q *asking) flags(cmd *cobra.Command) {
	q.AddFlags(cmd)
	cli.WaitFlag(cmd, &q.wait, 0, "then wait at most this long until it is done or needs somebody")
}

// change is a request to the operator: what it does, and its arguments.
type change struct {
	kind, args string
	does       []string
}

// Told is the answer of a verb that changes a cluster.
type Told struct {
	Cluster string   `json:"cluster"`
	Does    []string `json:"does"`
	Changed bool     `json:"changed"` // false: --dry-run

	Request *v1alpha1.RequestStatus `json:"request,omitempty"`
}

func (a verbs) promoteCommand() *cobra.Command {
	var q asking
	cmd := a.verb("promote CLUSTER ID", "Make another instance the writer; the old one follows it",
		"  pawl pg promote orders 2 --dry-run\n  pawl pg promote orders 2 -y --wait 5m", cobra.ExactArgs(2), func(ctx context.Context, _ *cobra.Command, c *cluster, args []string) error {
			what, err := c.promotion(args[0])
			if err != nil {
				return err
			}
			return a.carryOut(ctx, c, what, q)
		})
	cmd.Long = `Sends the request switch-writer to the operator. It stops the old writer, waits until the new
one has all that was written, and promotes it: no committed row is lost, and sessions of
the old writer end.

With --wait: exit code 0 when it is done, 1 when it was refused or cancelled, 3 when the
time is over, 4 when its run is paused.`
	cmd.ValidArgsFunction = a.completeInstances
	q.flags(cmd)
	return cmd
}

// promotion says what a switch of the writer does.
func (c *cluster) promotion(id string) (change, error) {
	to, err := c.instance(id)
	if err != nil {
		return change{}, err
	}
	switch {
	case to.Role == string(port.Writer):
		return change{}, sharedstorage.InstanceIsWriter.Errorf("instance %s is the writer", to.id)
	case to.Role != string(port.Reader):
		return change{}, sharedstorage.InstanceUnknown.Errorf("instance %s is a temporary one, which a run replaces another by", to.id)
	}
	what := change{kind: sharedstorage.SwitchWriter, args: to.id}
	lag := ""
	if to.LagBytes != nil && *to.LagBytes > 0 {
		lag = ", " + bytesText(*to.LagBytes) + " behind"
	}
	what.does = append(what.does, fmt.Sprintf("instance %s (%s on %s, %s%s) becomes the writer", to.id, to.Name, to.Node, to.Health, lag))
	if from, err := c.choose("", false); err == nil {
		what.does = append(what.does, fmt.Sprintf("instance %s stops, its sessions end, and it follows the new writer", from.id))
	} else {
		what.does = append(what.does, "no instance takes writes now: the switch begins when the writer is healthy, and failover is for a writer that is not")
	}
	what.does = append(what.does, "writes wait meanwhile, mostly for a second or two; failover is off")
	if to.Health != healthy {
		what.does = append(what.does, "the candidate is not healthy: the switch waits for it, or is refused")
	}
	return what, nil
}

func (a verbs) restartCommand() *cobra.Command {
	var q asking
	cmd := a.verb("restart CLUSTER [ID]", "Restart the engines of a cluster, readers first, or one of them",
		"  pawl pg restart orders --wait\n  pawl pg restart orders 2 -y", cobra.RangeArgs(1, 2), func(ctx context.Context, _ *cobra.Command, c *cluster, args []string) error {
			if len(args) == 0 {
				return a.carryOut(ctx, c, change{kind: sharedstorage.Restart, args: "cluster", does: []string{
					fmt.Sprintf("the engines of all %s restart: each reader, and when it has caught up the next, then the writer", cli.CountText(len(c.status.Instances), "instance")),
					"the sessions of each end; writes wait while the writer restarts; failover is off meanwhile",
				}}, q)
			}
			i, err := c.instance(args[0])
			if err != nil {
				return err
			}
			return a.carryOut(ctx, c, change{kind: sharedstorage.Restart, args: i.id, does: []string{fmt.Sprintf("the engine of instance %s (%s, %s) restarts; its sessions end; failover is off meanwhile", i.id, i.Role, i.Name)}}, q)
		})
	cmd.Long = "Sends the request restart to the operator. Exit codes with --wait are those of promote."
	cmd.ValidArgsFunction = a.completeInstances
	q.flags(cmd)
	return cmd
}

// carryOut says what a change does, asks, and sends the request.
func (a verbs) carryOut(ctx context.Context, c *cluster, what change, q asking) error {
	a.Say("%s", c.text())
	for _, line := range what.does {
		a.Say("  %s", line)
	}
	told := Told{Cluster: c.text(), Does: what.does}
	if q.Dry {
		a.Say("dry run: nothing was changed")
		return a.tell(told)
	}
	if err := a.Confirm(q.Confirmation); err != nil {
		return err
	}
	id, key := request.NewID(), sharedstorage.Prefix+what.kind
	o, err := control.Modify(ctx, c.objects, c.object.Ref, func(o *control.Object) error {
		if is := o.Annotations[key]; is != "" {
			return RequestPending.Errorf("%s has %s=%s", o.Ref, key, is)
		}
		if o.Annotations == nil {
			o.Annotations = map[string]string{}
		}
		o.Annotations[key] = request.Stamp(what.args, id)
		return nil
	})
	if err != nil {
		return err
	}
	told.Changed = true
	if err := c.set(o); err != nil {
		return err
	}
	if q.wait == 0 {
		a.Say("%s %s is requested: pawl pg status shows it, --wait waits for it", what.kind, what.args)
		return a.tell(told)
	}
	return a.settle(ctx, c, id, told, q.wait)
}

// tell prints the answer for programs; people have read it already.
func (a verbs) tell(told Told) error {
	if a.IsText() {
		return nil
	}
	return a.Emit(told, []string{told.Cluster}, nil)
}

// settle waits until a request has ended or its run is paused, and prints each step.
func (a verbs) settle(ctx context.Context, c *cluster, id string, told Told, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	changes := c.backend.Changes(ctx, "")
	tick := time.NewTicker(time.Second) // where changes are not told
	defer tick.Stop()
	printed := ""
	for {
		if r := find(c.status.Requests, id); r != nil {
			told.Request = r
			if exit, ended := c.ended(r); ended {
				if err := a.tell(told); err != nil {
					return err
				}
				a.sayEnd(c, r)
				return cli.End(exit)
			}
		}
		if line := c.doing(told.Request); line != printed {
			printed = line
			a.Hint("  %s", line)
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

func find(all []v1alpha1.RequestStatus, id string) *v1alpha1.RequestStatus {
	for i := range all {
		if all[i].ID == id {
			return &all[i]
		}
	}
	return nil
}

// ended returns the exit code of a request that has ended, or whose run is paused.
func (c *cluster) ended(r *v1alpha1.RequestStatus) (exit int, ended bool) {
	switch r.State {
	case sharedstorage.Done:
		return view.ExitDone, true
	case sharedstorage.Rejected, sharedstorage.Cancelled:
		return view.ExitFailed, true
	}
	paused := meta.IsStatusConditionPresentAndEqual(c.status.Conditions, sharedstorage.InterruptedCondition, metav1.ConditionTrue)
	return view.ExitRemedy, paused
}

func (a verbs) sayEnd(c *cluster, r *v1alpha1.RequestStatus) {
	if r.State == sharedstorage.Done {
		a.Say("%s %s is done: the writer is instance %s", r.Kind, r.Args, c.status.Writer)
		return
	}
	message := r.Message
	code := r.Code
	if r.State != sharedstorage.Rejected && r.State != sharedstorage.Cancelled {
		if at := meta.FindStatusCondition(c.status.Conditions, sharedstorage.InterruptedCondition); at != nil {
			message, code = at.Message, ""
		}
	}
	a.Hint("pawl: %s %s: %s: %s", r.Kind, r.Args, r.State, message)
	if kind, ok := fault.Lookup(code); ok {
		a.Hint("  remedy: %s", kind.Remedy)
	}
}

// doing says where a request is.
func (c *cluster) doing(r *v1alpha1.RequestStatus) string {
	run := c.status.Run
	switch {
	case r == nil:
		return "the operator has not accepted it yet"
	case r.State == sharedstorage.InWork && run != nil && run.Step != "":
		return run.Flow + " at " + run.Step
	}
	return r.State
}
