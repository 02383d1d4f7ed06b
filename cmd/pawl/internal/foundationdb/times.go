package foundationdb

import (
	"cmp"
	"context"
	"strconv"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/fdb"
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
)

// windows are how far back a version is looked for: a database that was available wrote one ten seconds before, and a
// day has fewer entries than one answer can hold.
var windows = []time.Duration{5 * time.Minute, 24 * time.Hour}

// versionOf is a version of a database as it was written, or that of a time: the cluster that was backed up is asked
// which one it had then.
func (s *source) versionOf(ctx context.Context, b *v1beta2.FoundationDBBackup, to string) (int64, error) {
	if version, err := strconv.ParseInt(to, 10, 64); err == nil && version > 0 {
		return version, nil
	}
	at, err := time.Parse(time.RFC3339, to)
	switch {
	case err != nil:
		return 0, cli.Usage.Errorf("--to %s: it is a version of the database, such as 184321907221, or a time, such as 2026-11-24T12:00:00Z", to)
	case at.After(s.now()):
		return 0, cli.Usage.Errorf("--to %s: it is in the future", to)
	}
	c := &v1beta2.FoundationDBCluster{}
	c.Namespace, c.Name = b.Namespace, b.Spec.ClusterName
	found, err := s.clusters(ctx, nameOf(c))
	switch {
	case fault.Of(err) == control.NotFound:
		return 0, fdb.TimeUnknown.Errorf("--to %s: the cluster %s, which was backed up, knows the versions of times, and is gone", to, nameOf(c))
	case err != nil:
		return 0, err
	}
	f := s.facts(ctx, found[0], false)
	for i := 0; ; i++ {
		window, last := windows[i], i == len(windows)-1
		result, out, _, err := s.run(ctx, f.Cluster, f.Pods, fdb.ReadTimes(at.Add(-window), at.Add(window/10)))
		if err != nil {
			return 0, err
		}
		if result.Outcome != fdb.Ok {
			return 0, CommandRefused.Errorf("%s does not say which version it had at %s: %s", nameOf(c), to, cmp.Or(result.String(), "no answer"))
		}
		known, err := fdb.VersionsOf(string(out))
		if err != nil {
			return 0, err
		}
		version, err := fdb.VersionAt(at, known)
		enclosed := len(known) > 0 && known[len(known)-1].At.After(at) || s.now().Sub(at) < window/10
		if last || err == nil && enclosed {
			return version, err
		}
	}
}
