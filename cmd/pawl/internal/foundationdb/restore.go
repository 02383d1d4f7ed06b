package foundationdb

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/foundationdb/report"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/view"
	"github.com/pawl-dev/pawl/view/fdbview"
)

// restoring is what a restore is asked for.
type restoring struct {
	name, into, to string
	version        int64 // that to is, or was at that time; 0: the newest
	ranges         []string
}

func (a verbs) restoreCommand() *cobra.Command {
	var w where
	var how cli.Confirmation
	var o restoring
	var wait time.Duration
	cmd := a.verb("restore BACKUP", "Restore a backup into a cluster; list and describe restores",
		"  pawl fdb restore nightly --wait\n  pawl fdb restore nightly --to 184321907221 --into orders-copy --wait 2h\n  pawl fdb restore nightly --to 2026-11-24T12:00:00Z --into orders-copy\n  pawl fdb restore list", cobra.ExactArgs(1),
		func(ctx context.Context, args []string) error { return a.restore(ctx, w, args[0], o, wait, how) })
	cmd.Long = `Creates a FoundationDBRestore of what a FoundationDBBackup has written. The operator starts
it, and watches it. The keys that are restored must be empty in the cluster.

A time (RFC 3339) becomes the version that the cluster that was backed up had then: it keeps
that, and is asked through one of its pods. When it is gone, name a version.

With --wait: exit code 0 when it is completed, 1 when it was aborted, 3 when the time is over.`
	cmd.ValidArgsFunction = a.completeObjects(report.BackupKind)
	w.namespaceFlag(cmd)
	w.objectsFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&o.to, "to", "", "`version` of the database, or the time, that is restored (default: the newest)")
	f.StringVar(&o.into, "into", "", "`cluster` that is written to (default: the one that was backed up)")
	f.StringVar(&o.name, "name", "", "`name` of the restore (default: that of the backup with the time)")
	f.StringArrayVar(&o.ranges, "range", nil, "only the keys of this range: 'begin end'; bytes as \\xNN (default: all keys)")
	cli.SetCompletions(cmd, map[string]cli.Completion{"into": a.completeClusters})
	cli.WaitFlag(cmd, &wait, 0, "then wait at most this long until it has ended")
	how.AddFlags(cmd)
	cmd.AddCommand(a.restoreListCommand(), a.restoreDescribeCommand())
	return cmd
}

// restoreOf is the object that restores a backup.
func restoreOf(b *v1beta2.FoundationDBBackup, o restoring, now time.Time) (*v1beta2.FoundationDBRestore, error) {
	r := &v1beta2.FoundationDBRestore{}
	r.Namespace, r.Name = b.Namespace, cmp.Or(o.name, b.Name+"-"+now.UTC().Format("20060102-150405"))
	r.Spec.DestinationClusterName = cmp.Or(o.into, b.Spec.ClusterName)
	r.Spec.EncryptionKeyPath = b.Spec.EncryptionKeyPath
	if b.Spec.BlobStoreConfiguration == nil {
		return nil, cli.Usage.Errorf("the backup %s names no blob store", nameOf(b))
	}
	r.Spec.BlobStoreConfiguration = b.Spec.BlobStoreConfiguration.DeepCopy()
	if r.Spec.BlobStoreConfiguration.BackupName == "" {
		r.Spec.BlobStoreConfiguration.BackupName = b.Name
	}
	if o.version > 0 {
		r.Spec.BackupVersion = &o.version
	}
	for _, text := range o.ranges {
		words := strings.Fields(text)
		if len(words) != 2 {
			return nil, cli.Usage.Errorf("--range %q: it is 'begin end'", text)
		}
		r.Spec.KeyRanges = append(r.Spec.KeyRanges, v1beta2.KeyRange{Start: words[0], End: words[1]})
	}
	if problems := foundationdb.ValidateRestore(r); len(problems) > 0 {
		return nil, foundationdb.Refused(foundationdb.SpecInvalid, problems)
	}
	return r, nil
}

func (a verbs) restore(ctx context.Context, w where, backup string, o restoring, wait time.Duration, how cli.Confirmation) error {
	s, err := a.open(ctx, w)
	if err != nil {
		return err
	}
	defer s.Close()
	b, err := s.backup(ctx, backup)
	if err != nil {
		return err
	}
	to := "the newest version"
	if o.to != "" {
		if o.version, err = s.versionOf(ctx, b, o.to); err != nil {
			return err
		}
		if to = fmt.Sprintf("version %d", o.version); o.to != strconv.FormatInt(o.version, 10) {
			to += ", which the database had at " + o.to + ","
		}
	}
	r, err := restoreOf(b, o, s.now())
	if err != nil {
		return err
	}
	v := report.OfRestore(r)
	does := []string{fmt.Sprintf("restore %s of backup %s into %s: %s", to, b.Name, v.Cluster, cmp.Or(strings.Join(v.Ranges, "; "), "all keys")),
		"the database is locked for its clients until it is completed"}
	if told := report.OfBackup(b); !told.Restorable {
		does = append(does, "the backup does not say that it is restorable")
	}
	if err := a.carryOut(ctx, s, []change{{object: shown(r, report.RestoreKind), does: does, do: func(ctx context.Context) (string, error) {
		spec, err := json.Marshal(r.Spec)
		if err != nil {
			return "", err
		}
		_, err = s.objects.Apply(ctx, control.Object{Ref: refOf(r, report.RestoreKind), Spec: spec, Revision: control.MustNotExist})
		return "created", err
	}}}, how); err != nil || wait == 0 || how.Dry {
		return err
	}
	return a.awaitRestore(ctx, s, refOf(r, report.RestoreKind), wait)
}

// awaitRestore prints what changes until a restore has ended.
func (a verbs) awaitRestore(ctx context.Context, s *source, ref control.Ref, wait time.Duration) error {
	limited, cancel := context.WithCancel(ctx)
	defer cancel()
	if wait < cli.Forever {
		limited, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	changes := s.backend.Changes(limited, "")
	printed := ""
	for {
		o, err := s.objects.Get(limited, ref)
		if err != nil {
			return cli.WatchEnded(limited, err)
		}
		r, err := report.RestoreOf(o)
		if err != nil {
			return err
		}
		v := report.OfRestore(r)
		if line := v.Line(); line != printed {
			printed = line
			a.Hint("%s", strings.TrimSuffix(line, "\n"))
		}
		if v.Exit() != view.ExitActive {
			return cli.End(v.Exit())
		}
		select {
		case <-limited.Done():
			return cli.End(view.ExitActive)
		case <-changes:
		}
	}
}

func (s *source) restores(ctx context.Context, cluster, name string) ([]*v1beta2.FoundationDBRestore, error) {
	var list v1beta2.FoundationDBRestoreList
	if err := s.reader.List(ctx, &list, client.InNamespace(s.home)); err != nil {
		return nil, err
	}
	var found []*v1beta2.FoundationDBRestore
	for i := range list.Items {
		r := &list.Items[i]
		if (cluster == "" || r.Spec.DestinationClusterName == cluster) && (name == "" || r.Name == name) {
			found = append(found, r)
		}
	}
	if len(found) == 0 && name != "" {
		return nil, control.NotFound.Errorf("there is no FoundationDBRestore %s in %s", name, s.place())
	}
	slices.SortFunc(found, func(a, b *v1beta2.FoundationDBRestore) int { return strings.Compare(nameOf(a), nameOf(b)) })
	return found, nil
}

func (a verbs) restoreListCommand() *cobra.Command {
	var w where
	cmd := a.verb("list [CLUSTER]", "List restores", "  pawl fdb restore list\n  pawl fdb restore list orders -o json", cobra.MaximumNArgs(1), func(ctx context.Context, args []string) error {
		s, err := a.open(ctx, w)
		if err != nil {
			return err
		}
		defer s.Close()
		found, err := s.restores(ctx, optional(args), "")
		if err != nil {
			return err
		}
		all := make([]report.Restore, len(found))
		for i, r := range found {
			all[i] = report.OfRestore(r)
		}
		return cli.EmitList(a.App, all, report.Restore.Ref, "no restores", []view.Column[report.Restore]{
			{Head: "NAMESPACE", Cell: func(r report.Restore) string { return r.Namespace }},
			{Head: "NAME", Cell: func(r report.Restore) string { return r.Name }},
			{Head: "INTO", Cell: func(r report.Restore) string { return r.Cluster }},
			{Head: "STATE", Cell: func(r report.Restore) string { return r.State }, Health: report.Restore.Health},
			{Head: "TAG", Cell: func(r report.Restore) string { return cmp.Or(r.Tag, "–") }},
			{Head: "STARTED", Wide: true, Cell: func(r report.Restore) string { return view.Moment(r.StartedAt) }},
			{Head: "COMPLETED", Wide: true, Cell: func(r report.Restore) string { return view.Moment(r.CompletedAt) }},
			{Head: "REASON", Wide: true, Cell: func(r report.Restore) string { return fdbview.Because(r.Reason, r.Message) }},
		})
	})
	w.namespaceFlag(cmd)
	w.allFlag(cmd)
	w.objectsFlag(cmd)
	return cmd
}

func (a verbs) restoreDescribeCommand() *cobra.Command {
	var w where
	cmd := a.verb("describe RESTORE", "Tell all that is known of a restore", "  pawl fdb restore describe nightly-20261124-120000", cobra.ExactArgs(1), func(ctx context.Context, args []string) error {
		s, err := a.open(ctx, w)
		if err != nil {
			return err
		}
		defer s.Close()
		found, err := s.restores(ctx, "", args[0])
		if err != nil {
			return err
		}
		v := report.OfRestore(found[0])
		return a.Emit(v, []string{v.Ref()}, func() string { return v.Describe(s.now(), a.Style(a.Out)) })
	})
	cmd.ValidArgsFunction = a.completeObjects(report.RestoreKind)
	w.namespaceFlag(cmd)
	w.objectsFlag(cmd)
	return cmd
}
