// Package rollouts has the verbs of pawl that steer Rollouts of a Kubernetes cluster.
package rollouts

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/rollout"
)

// Commands returns the verbs.
func Commands(a *cli.App) []*cobra.Command { return []*cobra.Command{verbs{a}.rolloutCommand()} }

type verbs struct{ *cli.App }

// flags are those of all verbs of the group.
type flags struct{ namespace string }

func (a verbs) rolloutCommand() *cobra.Command {
	group := &cobra.Command{
		Use: "rollout", Short: "Steer a Rollout: approve a batch, pause, retry, take it back",
		Long: `Steers Rollouts of a Kubernetes cluster, with the words of kubectl rollout. NAME is that of
a Rollout, or KIND/NAME of its workload, such as sts/etcd.

approve, resume, retry, abandon and undo are requests: annotations that the operator accepts
once and answers. The answer stands in status.lastRequest, name and reason in the history.

With --wait a verb then waits until the rollout has ended or needs somebody; --wait 30m, or
--wait --timeout 30m, ends it after that time with exit code 3.

get, describe, watch, history and plan take rollout NAME as any other kind.`,
		Example: `  pawl rollout status etcd
  pawl rollout approve etcd --reason 'smoke tests passed'
  pawl rollout approve etcd --batch all --wait 30m
  pawl rollout undo sts/etcd --reason 'p99 doubled'`,
	}
	group.AddCommand(
		a.statusCommand(),
		a.pauseCommand(),
		a.approveCommand(),
		a.requestCommand("resume", rollout.Resume, "End a pause, and go past what paused it"),
		a.requestCommand("retry", rollout.Retry, "End a pause, and ask again what paused it"),
		a.undoCommand(),
		a.requestCommand("abandon", rollout.Abandon, "End a rollout; the pods stay as they are"),
		a.restartCommand(),
	)
	return group
}

// verb makes a verb with the flags of the group.
func (a verbs) verb(use, short, example string, do func(ctx context.Context, name string, f flags) error) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use: use + " NAME", Short: short, Example: example, Args: cobra.ExactArgs(1),
		ValidArgsFunction: a.complete,
		RunE: a.Verb(func(ctx context.Context, _ *cobra.Command, args []string) error {
			return do(ctx, args[0], f)
		}),
	}
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", "`namespace` of the Rollout (default: that of the context)")
	return cmd
}

func (a verbs) statusCommand() *cobra.Command {
	var wait time.Duration
	cmd := a.verb("status", "Say where a rollout stands; with --wait until it has ended or needs somebody",
		"  pawl rollout status etcd\n  pawl rollout status etcd --wait 30m", func(ctx context.Context, name string, f flags) error {
			return a.status(ctx, name, f.namespace, wait)
		})
	cmd.Long = "Exit code 0: all pods are as they are asked for. 1: it failed or was taken back. 3: it is under\nway. 4: it is paused or stalled."
	cli.WaitFlag(cmd, &wait, 0, "wait at most this long")
	return cmd
}

func (a verbs) pauseCommand() *cobra.Command {
	var reason string
	var wait time.Duration
	cmd := a.verb("pause", "Hold a rollout at the next safe point", "  pawl rollout pause etcd --reason 'the backup runs'", func(ctx context.Context, name string, f flags) error {
		return a.pause(ctx, name, f.namespace, reason, wait)
	})
	requestFlags(cmd, &reason, &wait)
	return cmd
}

func (a verbs) undoCommand() *cobra.Command {
	var reason string
	var revision int64
	var wait time.Duration
	cmd := a.verb("undo", "Take the pods back to the old template, in batches",
		"  pawl rollout undo etcd --reason 'p99 doubled'\n  pawl rollout undo sts/etcd --to-revision 3 --wait 30m", func(ctx context.Context, name string, f flags) error {
			switch {
			case revision < 0:
				return cli.Usage.Errorf("--to-revision %d: it is a number that kubectl rollout history shows", revision)
			case revision > 0 && reason != "":
				return cli.Usage.Errorf("--to-revision writes a template, which carries no reason: give one of them")
			case revision > 0:
				return a.undoTo(ctx, name, f.namespace, revision, wait)
			}
			return a.undo(ctx, name, f.namespace, reason, wait)
		})
	cmd.Long = `In the middle of a rollout, takes back the pods that it has changed, in batches. After
its end, writes the template that it replaced to the workload, and with --to-revision
that of an older revision, the number that kubectl rollout history shows: its Rollout
changes the pods in batches.`
	cmd.Flags().Int64Var(&revision, "to-revision", 0, "`number` of the revision whose template is written")
	requestFlags(cmd, &reason, &wait)
	return cmd
}

func (a verbs) approveCommand() *cobra.Command {
	var batch, reason string
	var wait time.Duration
	cmd := a.verb("approve", "Let the next batch run, whatever batchPartition says",
		"  pawl rollout approve etcd --reason 'smoke tests passed'\n  pawl rollout approve etcd --batch all --wait 1h", func(ctx context.Context, name string, f flags) error {
			return a.request(ctx, name, f.namespace, rollout.Approve, batch, reason, wait)
		})
	cmd.Flags().StringVar(&batch, "batch", "next", "the last `batch` that may run: its index from 0, next or all")
	requestFlags(cmd, &reason, &wait)
	return cmd
}

func (a verbs) requestCommand(use string, verb rollout.Verb, short string) *cobra.Command {
	var reason string
	var wait time.Duration
	cmd := a.verb(use, short, "  pawl rollout "+use+" etcd --reason 'seen in the dashboard'", func(ctx context.Context, name string, f flags) error {
		return a.request(ctx, name, f.namespace, verb, "", reason, wait)
	})
	requestFlags(cmd, &reason, &wait)
	return cmd
}

func requestFlags(cmd *cobra.Command, reason *string, wait *time.Duration) {
	cmd.Flags().StringVar(reason, "reason", "", "`text` for the history")
	waitFlag(cmd, wait)
}

func waitFlag(cmd *cobra.Command, wait *time.Duration) {
	cli.WaitFlag(cmd, wait, 0, "then wait at most this long until it has ended or needs somebody")
}

func (a verbs) restartCommand() *cobra.Command {
	var wait time.Duration
	cmd := a.verb("restart", "Change the template of the workload, so that all pods are made anew in batches", "  pawl rollout restart etcd",
		func(ctx context.Context, name string, f flags) error { return a.restart(ctx, name, f.namespace, wait) })
	waitFlag(cmd, &wait)
	return cmd
}
