package foundationdb

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/foundationdb/report"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/view/fdbview"
)

// backups are those of the namespace, of a cluster or with a name; empty: all.
func (s *source) backups(ctx context.Context, cluster, name string) ([]*v1beta2.FoundationDBBackup, error) {
	var list v1beta2.FoundationDBBackupList
	if err := s.reader.List(ctx, &list, client.InNamespace(s.home)); err != nil {
		return nil, err
	}
	var found []*v1beta2.FoundationDBBackup
	var names []string
	for i := range list.Items {
		b := &list.Items[i]
		names = append(names, b.Name)
		if (cluster == "" || b.Spec.ClusterName == cluster) && (name == "" || b.Name == name) {
			found = append(found, b)
		}
	}
	if len(found) == 0 && name != "" {
		return nil, control.NotFound.Errorf("there is no FoundationDBBackup %s in %s%s", name, s.place(), cli.Suggest(name, names))
	}
	return found, nil
}

func (s *source) backup(ctx context.Context, name string) (*v1beta2.FoundationDBBackup, error) {
	found, err := s.backups(ctx, "", name)
	switch {
	case err != nil:
		return nil, err
	case len(found) > 1:
		return nil, cli.Usage.Errorf("several namespaces have a FoundationDBBackup %s: name one with -n", name)
	}
	return found[0], nil
}

func (a verbs) backupCommand() *cobra.Command {
	group := &cobra.Command{Use: "backup", Short: "List, describe, start, pause and stop backups", Example: "  pawl fdb backup list orders\n  pawl fdb backup pause nightly"}
	group.AddCommand(
		a.backupListCommand(), a.backupDescribeCommand(),
		a.backupStateCommand("start", v1beta2.BackupRunning, "Let a backup run, or go on", "the backup runs"),
		a.backupStateCommand("pause", v1beta2.BackupPaused, "Pause a backup; that pauses all backups of the database", "the backup pauses, and with it all backups of the database; mutations wait in the database until it goes on"),
		a.backupStateCommand("stop", v1beta2.BackupStopped, "Stop a backup", "the backup ends when it is restorable; what it has written stays"),
	)
	return group
}

func (a verbs) backupListCommand() *cobra.Command {
	var w where
	cmd := a.verb("list [CLUSTER]", "List backups", "  pawl fdb backup list\n  pawl fdb backup list orders -o json", cobra.MaximumNArgs(1), func(ctx context.Context, args []string) error {
		s, err := a.open(ctx, w)
		if err != nil {
			return err
		}
		defer s.Close()
		found, err := s.backups(ctx, optional(args), "")
		if err != nil {
			return err
		}
		all := make([]report.Backup, len(found))
		for i, b := range found {
			all[i] = report.OfBackup(b)
		}
		return cli.EmitList(a.App, all, report.Backup.Ref, "no backups", []view.Column[report.Backup]{
			{Head: "NAMESPACE", Cell: func(b report.Backup) string { return b.Namespace }},
			{Head: "NAME", Cell: func(b report.Backup) string { return b.Name }},
			{Head: "CLUSTER", Cell: func(b report.Backup) string { return b.Cluster }},
			{Head: "STATE", Cell: func(b report.Backup) string { return b.State }, Health: report.Backup.Health},
			{Head: "TAG", Cell: func(b report.Backup) string { return b.Tag }},
			{Head: "RESTORABLE", Cell: func(b report.Backup) string { return strconv.FormatBool(b.Restorable) }},
			{Head: "AGENTS", Cell: func(b report.Backup) string { return fmt.Sprintf("%d/%d", b.Agents, b.DesiredAgents) }},
			{Head: "DESIRED", Wide: true, Cell: func(b report.Backup) string { return b.Desired }},
			{Head: "URL", Wide: true, Cell: func(b report.Backup) string { return b.URL }},
			{Head: "REASON", Wide: true, Cell: func(b report.Backup) string { return fdbview.Because(b.Reason, b.Message) }},
		})
	})
	w.namespaceFlag(cmd)
	w.allFlag(cmd)
	w.objectsFlag(cmd)
	return cmd
}

func (a verbs) backupDescribeCommand() *cobra.Command {
	var w where
	cmd := a.verb("describe BACKUP", "Tell all that is known of a backup", "  pawl fdb backup describe nightly", cobra.ExactArgs(1), func(ctx context.Context, args []string) error {
		s, err := a.open(ctx, w)
		if err != nil {
			return err
		}
		defer s.Close()
		b, err := s.backup(ctx, args[0])
		if err != nil {
			return err
		}
		v := report.OfBackup(b)
		return a.Emit(v, []string{v.Ref()}, func() string { return v.Describe(a.Style(a.Out)) })
	})
	cmd.ValidArgsFunction = a.completeObjects(report.BackupKind)
	w.namespaceFlag(cmd)
	w.objectsFlag(cmd)
	return cmd
}

func (a verbs) backupStateCommand(use string, state v1beta2.BackupState, short, does string) *cobra.Command {
	var w where
	var how cli.Confirmation
	cmd := a.verb(use+" BACKUP", short, "  pawl fdb backup "+use+" nightly", cobra.ExactArgs(1), func(ctx context.Context, args []string) error {
		s, err := a.open(ctx, w)
		if err != nil {
			return err
		}
		defer s.Close()
		b, err := s.backup(ctx, args[0])
		if err != nil {
			return err
		}
		return a.carryOut(ctx, s, []change{{
			object: shown(b, report.BackupKind), does: []string{does}, ref: refOf(b, report.BackupKind),
			edit: func(_ *control.Object, spec map[string]any) error {
				spec["backupState"] = string(state)
				return nil
			},
		}}, how)
	})
	cmd.ValidArgsFunction = a.completeObjects(report.BackupKind)
	w.namespaceFlag(cmd)
	w.objectsFlag(cmd)
	how.AddFlags(cmd)
	return cmd
}

// completeObjects suggests names of backups or restores.
func (a verbs) completeObjects(kind string) cli.Completion {
	return func(cmd *cobra.Command, args []string, start string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.CompleteKinds(cmd, []string{strings.ToLower(kind)}, start)
	}
}
