package foundationdb

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/foundationdb/report"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/view"
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

// objectTable is the table of objects in a list of v.
func objectTable[T any](all []T, head []string, row func(T) []string) string {
	t := view.Table{Head: head}
	for _, one := range all {
		t.Rows = append(t.Rows, row(one))
	}
	return t.String()
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
		return a.Emit(cli.ListOf(all), cli.NamesOf(all, report.Backup.Ref), func() string {
			if len(all) == 0 {
				return "no backups\n"
			}
			return objectTable(all, []string{"NAMESPACE", "NAME", "CLUSTER", "STATE", "TAG", "RESTORABLE", "AGENTS"}, func(b report.Backup) []string {
				return []string{b.Namespace, b.Name, b.Cluster, b.State, b.Tag, fmt.Sprint(b.Restorable), fmt.Sprintf("%d/%d", b.Agents, b.DesiredAgents)}
			})
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
		return a.Emit(v, []string{v.Ref()}, v.Describe)
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
