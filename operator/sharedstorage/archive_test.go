package sharedstorage_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// archiving is an engine that remembers where instances archive, and those that began to write
// before they knew.
type archiving struct {
	port.Engine
	port.Archiver // the methods that these tests do not call

	mu    sync.Mutex
	told  map[string]string
	early []string
	says  port.ArchiveStatus            // of each instance
	also  map[string]port.ArchiveStatus // of single instances, instead
	taken []port.Backup
}

func (a *archiving) Backups(context.Context, port.Ref) ([]port.Backup, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.taken), nil
}

func (a *archiving) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

func (a *archiving) Archive(_ context.Context, id port.Ref, to *port.Repository) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told[id.Instance] = to.Hash()
	return nil
}

func (a *archiving) Promote(ctx context.Context, id port.Ref, epoch int64) error {
	a.mu.Lock()
	if a.told[id.Instance] == "" {
		a.early = append(a.early, id.Instance)
	}
	a.mu.Unlock()
	return a.Engine.Promote(ctx, id, epoch)
}

func (a *archiving) Status(ctx context.Context, id port.Ref) (port.Status, error) {
	st, err := a.Engine.Status(ctx, id)
	a.mu.Lock()
	defer a.mu.Unlock()
	st.Archive = a.says
	if own, ok := a.also[id.Instance]; ok {
		st.Archive = own
	}
	st.Archive.Repository = a.told[id.Instance]
	return st, err
}

// A reader that one run makes and promotes archives from its first byte: otherwise the archive lacks
// the history of its timeline, and no earlier backup could be restored beyond the switch.
func TestANewWriterArchives(t *testing.T) {
	engine := &archiving{told: map[string]string{}}
	use := func(o *sharedstorage.Options) {
		engine.Engine = o.Ports.Engine
		o.Ports.Engine = engine
	}
	four := times()
	for _, name := range []string{"node-1", "node-2", "node-3", "node-4"} {
		four.Nodes = append(four.Nodes, port.Node{Name: name, Ready: true, Schedulable: true})
	}
	inHarness(t, setup{sim: four, options: use}, func(l *harness) {
		up(l, "blue")
		l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) {
			s.Backup = &v1alpha1.BackupSpec{Repository: v1alpha1.RepositorySpec{Folder: "/srv/backups"}}
		})
		time.Sleep(2 * time.Minute)
		was, old := l.writer("blue")
		l.request("blue", "migrate", was+"|node-4")
		time.Sleep(2 * time.Second)
		l.awaitRunning("blue", time.Hour)
		l.requestDone("blue", "migrate")
		if _, now := l.writer("blue"); now.Name == old.Name || len(engine.early) > 0 {
			t.Errorf("%s writes, before that %s; these wrote before they archived: %v", now.Name, old.Name, engine.early)
		}
	})
}

// A cluster and what is copied from it have one system identifier, so nothing but this check keeps
// the new one out of the archive of the other.
func TestACopyStaysOutOfTheArchive(t *testing.T) {
	at := func(stanza string) *v1alpha1.BackupSpec {
		return &v1alpha1.BackupSpec{Repository: v1alpha1.RepositorySpec{Folder: "/srv/backups", Stanza: stanza}}
	}
	source := at("default-green").Repository
	own := at("default-blue").Repository
	for name, c := range map[string]struct {
		from    func(s *v1alpha1.SharedStorageClusterSpec)
		stanza  string
		refused bool
	}{
		"restored into the archive of its source": {func(s *v1alpha1.SharedStorageClusterSpec) { s.RestoreFrom = &v1alpha1.RestoreSpec{Cluster: "green"} }, "default-green", true},
		"restored into an own archive":            {func(s *v1alpha1.SharedStorageClusterSpec) { s.RestoreFrom = &v1alpha1.RestoreSpec{Cluster: "green"} }, "", false},
		"from the repository of its source":       {func(s *v1alpha1.SharedStorageClusterSpec) { s.RestoreFrom = &v1alpha1.RestoreSpec{Repository: &source} }, "default-green", true},
		"from its own repository":                 {func(s *v1alpha1.SharedStorageClusterSpec) { s.RestoreFrom = &v1alpha1.RestoreSpec{Repository: &own} }, "", true},
		"from another repository":                 {func(s *v1alpha1.SharedStorageClusterSpec) { s.RestoreFrom = &v1alpha1.RestoreSpec{Repository: &source} }, "", false},
		"a clone in the archive of its source":    {func(s *v1alpha1.SharedStorageClusterSpec) { s.CloneFrom = "green" }, "default-green", true},
		"a clone in an own archive":               {func(s *v1alpha1.SharedStorageClusterSpec) { s.CloneFrom = "green" }, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			inHarness(t, setup{sim: times()}, func(l *harness) {
				l.create("green", func(s *v1alpha1.SharedStorageClusterSpec) { s.Backup = at("") })
				l.awaitRunning("green", 10*time.Minute)
				l.create("blue", func(s *v1alpha1.SharedStorageClusterSpec) {
					s.Backup = at(c.stanza)
					c.from(s)
				})
				if !c.refused {
					l.awaitRunning("blue", 10*time.Minute)
					return
				}
				time.Sleep(5 * time.Minute)
				held := conditionOf(l.observe("blue"), sharedstorage.ProgressingCondition)
				if held.Status != metav1.ConditionFalse || held.Reason != "BackupRepositoryTaken" || !strings.Contains(held.Message, "default-") {
					t.Errorf("Progressing: %+v", held)
				}
				if archiving := conditionOf(l.observe("blue"), sharedstorage.ArchivingCondition); archiving.Status == metav1.ConditionTrue || archiving.Reason != "BackupRepositoryTaken" {
					t.Errorf("Archiving: %+v", archiving)
				}
				if len(l.sim.Instances(ref("blue"))) > 0 {
					t.Error("instances were made")
				}
			})
		})
	}
}

// Also a cluster that archives later than it was copied stays out.
func TestACopyStaysOutOfTheArchiveLater(t *testing.T) {
	engine := &archiving{told: map[string]string{}}
	inHarness(t, setup{sim: times(), options: func(o *sharedstorage.Options) {
		engine.Engine = o.Ports.Engine
		o.Ports.Engine = engine
	}}, func(l *harness) {
		backup := &v1alpha1.BackupSpec{Repository: v1alpha1.RepositorySpec{Folder: "/srv/backups", Stanza: "shared"}}
		l.create("green", func(s *v1alpha1.SharedStorageClusterSpec) { s.Backup = backup })
		l.awaitRunning("green", 10*time.Minute)
		l.create("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.CloneFrom = "green" })
		l.awaitRunning("blue", 10*time.Minute)
		l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.Backup = backup })
		time.Sleep(5 * time.Minute)
		if got := conditionOf(l.observe("blue"), sharedstorage.ArchivingCondition); got.Status != metav1.ConditionFalse || got.Reason != "BackupRepositoryTaken" {
			t.Errorf("Archiving: %+v", got)
		}
		for name, to := range engine.told {
			if strings.HasPrefix(name, "blue") && to != "" {
				t.Errorf("%s was told to archive there", name)
			}
		}
	})
}

// ordered are the backups that the schedule has asked for.
type ordered struct {
	sharedstorage.BackupStore

	mu    sync.Mutex
	names []string
	ended map[string]time.Time

	cancelled []string
	asked     int
}

func (o *ordered) Find(_ context.Context, namespace, name string) (*v1alpha1.SharedStorageBackup, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.Contains(o.names, name) {
		return nil, control.NotFoundError(control.Ref{Kind: sharedstorage.BackupKind, Namespace: namespace, Name: name})
	}
	b := &v1alpha1.SharedStorageBackup{}
	if at := o.ended[name]; !at.IsZero() {
		b.Status.Label, b.Status.EndedAt = "20000101-000000F", new(metav1.NewTime(at))
	}
	if slices.Contains(o.cancelled, name) {
		b.Status.State = "Cancelled"
	}
	return b, nil
}

func (o *ordered) end(name string, at time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = map[string]time.Time{name: at}
}

func (o *ordered) Create(_ context.Context, b *v1alpha1.SharedStorageBackup) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked++
	if !slices.Contains(o.names, b.Name) {
		o.names = append(o.names, b.Name)
	}
	return nil
}

func (o *ordered) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.names)
}

// inArchive calls test with a cluster's world whose log goes to an archive and whose backups are ordered.
func inArchive(t *testing.T, test func(l *harness, engine *archiving, backups *ordered)) {
	t.Helper()
	engine, backups := &archiving{told: map[string]string{}}, &ordered{}
	inHarness(t, setup{sim: times(), options: func(o *sharedstorage.Options) {
		engine.Engine = o.Ports.Engine
		o.Ports.Engine, o.Backups = engine, backups
	}}, func(l *harness) { test(l, engine, backups) })
}

// Each place gets a backup as soon as the log goes there: without one nothing could be restored from
// it until the next turn of the schedule.
func TestABackupWithEachPlace(t *testing.T) {
	inArchive(t, func(l *harness, engine *archiving, backups *ordered) {
		up(l, "blue")
		to := func(folder string) func(*v1alpha1.SharedStorageClusterSpec) {
			return func(s *v1alpha1.SharedStorageClusterSpec) {
				s.Backup = &v1alpha1.BackupSpec{Repository: v1alpha1.RepositorySpec{Folder: folder}, Every: &metav1.Duration{Duration: 12 * time.Hour}}
			}
		}
		for _, c := range []struct {
			what string
			edit func(*v1alpha1.SharedStorageClusterSpec)
			wait time.Duration
			want int
		}{
			{"a first place", to("/srv/one"), 5 * time.Minute, 1},
			{"a day", func(*v1alpha1.SharedStorageClusterSpec) {}, 24 * time.Hour, 3},
			{"another place", to("/srv/two"), 5 * time.Minute, 4},
			{"an edit that leaves the place", func(s *v1alpha1.SharedStorageClusterSpec) { s.Backup.Retention.Backups = 3 }, 5 * time.Minute, 4},
			{"no place", func(s *v1alpha1.SharedStorageClusterSpec) { s.Backup = nil }, 5 * time.Minute, 4},
			{"the place again", to("/srv/two"), 5 * time.Minute, 5},
			{"mornings in Berlin instead", func(s *v1alpha1.SharedStorageClusterSpec) {
				s.Backup.Every, s.Backup.Cron, s.Backup.TimeZone = nil, "30 7 * * *", "Europe/Berlin"
			}, 24 * time.Hour, 6},
			{"three days", func(*v1alpha1.SharedStorageClusterSpec) {}, 72 * time.Hour, 9},
		} {
			l.edit("blue", c.edit)
			time.Sleep(c.wait)
			if got := backups.count(); got != c.want {
				t.Errorf("%s: %d backups, want %d: %v", c.what, got, c.want, backups.names)
			}
		}
		s := l.observe("blue").Status
		if last := backups.names[len(backups.names)-1]; !strings.HasSuffix(last, "-063000") { // in winter
			t.Errorf("the last backup is %s", last)
		}
		if next := s.Backup.Next; next == nil || next.UTC().Format("15:04") != "06:30" || time.Until(next.Time) > 24*time.Hour || next.Time.Before(time.Now()) {
			t.Errorf("the next backup: %s", next)
		}
		if got := conditionOf(l.observe("blue"), sharedstorage.ArchivingCondition); !strings.Contains(got.Message, "the next backup is taken at "+s.Backup.Next.UTC().Format(time.RFC3339)) {
			t.Errorf("%+v", got)
		}
	})
}

// While the archive is away the condition says how much waits and when it fills the volume. What was
// given up is a gap in the status until the backup that the operator takes has ended.
func TestAGapInTheArchive(t *testing.T) {
	inArchive(t, func(l *harness, engine *archiving, backups *ordered) {
		up(l, "blue")
		bound := resource.MustParse("1Gi")
		l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) {
			s.Backup = &v1alpha1.BackupSpec{Repository: v1alpha1.RepositorySpec{Folder: "/srv/backups"}}
		})
		time.Sleep(5 * time.Minute)
		began := time.Now().UTC().Truncate(time.Second)
		is := func(st port.ArchiveStatus, status metav1.ConditionStatus, reason string, parts ...string) *v1alpha1.ArchiveGap {
			l.t.Helper()
			engine.mu.Lock()
			engine.says = st
			engine.mu.Unlock()
			time.Sleep(5 * time.Minute)
			c := l.observe("blue")
			got := conditionOf(c, sharedstorage.ArchivingCondition)
			if got.Status != status || got.Reason != reason || slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(got.Message, part) }) {
				l.t.Errorf("%+v, want %s %s with %q", got, status, reason, parts)
			}
			return c.Status.Backup.Gap
		}
		away := port.ArchiveStatus{Waiting: 16, Bytes: 256 << 20, Free: 2560 << 20, Since: began, LastAt: began.Add(-time.Hour), Failing: true, Message: "no route to host"}
		is(away, metav1.ConditionFalse, "ArchiveFailed", "16 segments (256Mi) wait since", "fill the volume in about ", " minutes if it goes on so", "no route to host")
		l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.Backup.MaxWaiting = &bound })
		is(away, metav1.ConditionFalse, "ArchiveFailed", "the oldest are given up beyond 1Gi")

		given := away
		given.Last, given.Dropped, given.DroppedAt = "000000010000000000000007", "000000010000000000000007", time.Now().UTC().Add(300*time.Millisecond)
		gap := is(given, metav1.ConditionFalse, "ArchiveFailed")
		if gap == nil || gap.Closed != nil || gap.Backup != "" || gap.From == nil || gap.From.After(began) || backups.count() > 0 {
			t.Fatalf("%+v, %d backups", gap, backups.count())
		}
		between := given // a segment that is given up is archived, says PostgreSQL: until the next try nothing fails
		between.Failing, between.Message = false, ""
		if gap = is(between, metav1.ConditionFalse, "ArchiveGap", "the next backup"); gap.Backup != "" || backups.count() > 0 {
			t.Fatalf("%+v, %d backups", gap, backups.count())
		}
		back := given
		back.Last = "00000001000000000000000C"
		back.Waiting, back.Bytes, back.Failing, back.LastAt = 0, 0, false, time.Now().UTC()
		from := gap.From.Time
		gap = is(back, metav1.ConditionFalse, "ArchiveGap", "000000010000000000000007", from.Format(time.RFC3339), "backup blue-after-gap-"+gap.Until.UTC().Format("20060102-150405"))
		if gap == nil || gap.Backup == "" || backups.count() != 1 || !l.observe("blue").Status.Backup.ArchivedUntil.Time.Equal(from) {
			t.Fatalf("%+v, %v", gap, backups.names)
		}
		ended := time.Now().UTC().Truncate(time.Second)
		backups.end(gap.Backup, ended)
		engine.set(func() { engine.taken = []port.Backup{{Started: ended.Add(-time.Minute), Ended: ended}} })
		gap = is(back, metav1.ConditionTrue, "Archived")
		if gap == nil || gap.Closed == nil || !gap.Closed.Time.Equal(ended) || backups.count() != 1 || !gap.From.Time.Equal(from) {
			t.Errorf("%+v, %v", gap, backups.names)
		}
		if until := l.observe("blue").Status.Backup.ArchivedUntil; !until.After(from) {
			t.Errorf("archived until %s", until)
		}
		given.DroppedAt, given.Dropped = time.Now().UTC(), "000000010000000000000020"
		if gap = is(given, metav1.ConditionFalse, "ArchiveFailed"); gap.Closed != nil || gap.Segment != given.Dropped || !gap.From.After(from) {
			t.Errorf("a second gap: %+v", gap)
		}
	})
}

// gapTest is a cluster that archives to /srv/backups, with the time at which a gap ends there.
func gapTest(t *testing.T, test func(l *harness, engine *archiving, backups *ordered, given port.ArchiveStatus)) {
	t.Helper()
	inArchive(t, func(l *harness, engine *archiving, backups *ordered) {
		up(l, "blue")
		l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) {
			s.Backup = &v1alpha1.BackupSpec{Repository: v1alpha1.RepositorySpec{Folder: "/srv/backups"}}
		})
		time.Sleep(5 * time.Minute)
		at := time.Now().UTC()
		test(l, engine, backups, port.ArchiveStatus{LastAt: at.Add(time.Second), Last: "000000010000000000000009", Dropped: "000000010000000000000007", DroppedAt: at})
	})
}

// What is given up while the backup works needs another one, which waits until that has ended.
func TestAWiderGap(t *testing.T) {
	gapTest(t, func(l *harness, engine *archiving, backups *ordered, given port.ArchiveStatus) {
		wider := func(segment string) *v1alpha1.ArchiveGap {
			given.Last, given.Dropped, given.DroppedAt = segment+"F", segment, time.Now().UTC()
			engine.set(func() { engine.says = given })
			time.Sleep(5 * time.Minute)
			return l.observe("blue").Status.Backup.Gap
		}
		first := wider("00000001000000000000000A")
		if first == nil || first.Backup == "" || backups.count() != 1 {
			t.Fatalf("%+v, %v", first, backups.names)
		}
		began := time.Now()
		for _, segment := range []string{"00000001000000000000000B", "00000001000000000000000C"} {
			if g := wider(segment); g.Segment != segment || g.Backup != first.Backup || !g.From.Equal(first.From) || backups.count() != 1 {
				t.Errorf("%+v, %v", g, backups.names)
			}
		}
		backups.end(first.Backup, time.Now())
		engine.set(func() { engine.taken = []port.Backup{{Started: began, Ended: time.Now()}} })
		time.Sleep(5 * time.Minute)
		if g := l.observe("blue").Status.Backup.Gap; g.Closed != nil || g.Backup == first.Backup || backups.count() != 2 {
			t.Errorf("%+v, %v", g, backups.names)
		}
	})
}

// A backup object of a former cluster of this name closes nothing, and neither does a backup of it that is
// still in the repository.
func TestAFormerBackupClosesNoGap(t *testing.T) {
	gapTest(t, func(l *harness, engine *archiving, backups *ordered, given port.ArchiveStatus) {
		former := given.DroppedAt.Add(-100 * 24 * time.Hour)
		for _, name := range []string{"blue-after-000000010000000000000007", "blue-after-gap-" + former.Format("20060102-150405")} {
			backups.names = append(backups.names, name)
			backups.end(name, former)
		}
		engine.set(func() {
			engine.says, engine.taken = given, []port.Backup{{Started: former.Add(-time.Hour), Ended: former}, {Started: given.DroppedAt, Ended: given.DroppedAt.Add(time.Second)}}
		})
		time.Sleep(5 * time.Minute)
		if g := l.observe("blue").Status.Backup.Gap; g == nil || g.Closed != nil || backups.count() != 3 || g.Backup != backups.names[2] {
			t.Errorf("%+v, %v", g, backups.names)
		}
	})
}

// A backup that somebody cancels is not taken again against that will; the next one that anybody takes
// closes the gap.
func TestAnyBackupClosesAGap(t *testing.T) {
	gapTest(t, func(l *harness, engine *archiving, backups *ordered, given port.ArchiveStatus) {
		engine.set(func() { engine.says = given })
		time.Sleep(5 * time.Minute)
		backups.mu.Lock()
		backups.cancelled = slices.Clone(backups.names)
		backups.mu.Unlock()
		time.Sleep(5 * time.Minute)
		if g := l.observe("blue").Status.Backup.Gap; g == nil || g.Closed != nil || backups.count() != 1 || backups.asked != 1 {
			t.Fatalf("%+v, %v, asked for %d times", g, backups.names, backups.asked)
		}
		ended := time.Now().UTC().Truncate(time.Second)
		engine.set(func() {
			engine.taken = []port.Backup{{Started: ended.Add(-time.Minute), Ended: ended}, {Started: ended, Ended: ended.Add(time.Minute)}}
		})
		time.Sleep(5 * time.Minute)
		if g := l.observe("blue").Status.Backup.Gap; g.Closed == nil || !g.Closed.Time.Equal(ended) || backups.count() != 1 {
			t.Errorf("%+v, %v", g, backups.names)
		}
	})
}

// A gap is that of one place.
func TestAnotherPlaceHasNoGap(t *testing.T) {
	gapTest(t, func(l *harness, engine *archiving, backups *ordered, given port.ArchiveStatus) {
		engine.set(func() { engine.says = given })
		time.Sleep(5 * time.Minute)
		if g := l.observe("blue").Status.Backup.Gap; g == nil || g.Place != "/srv/backups#default-blue" {
			t.Fatalf("%+v", g)
		}
		engine.set(func() { engine.says = port.ArchiveStatus{Last: given.Last, LastAt: time.Now().UTC()} })
		l.edit("blue", func(s *v1alpha1.SharedStorageClusterSpec) { s.Backup.Repository.Folder = "/srv/other" })
		time.Sleep(5 * time.Minute)
		c := l.observe("blue")
		if got := conditionOf(c, sharedstorage.ArchivingCondition); c.Status.Backup.Gap != nil || got.Status != metav1.ConditionTrue {
			t.Errorf("%+v, %+v", c.Status.Backup.Gap, got)
		}
	})
}

// After a failover the former writer, a reader now, is the only one that knows what it gave up. The
// newest word of all counts.
func TestAReaderTellsAGap(t *testing.T) {
	gapTest(t, func(l *harness, engine *archiving, backups *ordered, given port.ArchiveStatus) {
		_, writer := l.writer("blue")
		told := map[string]port.ArchiveStatus{}
		for n, i := range l.sim.Instances(ref("blue")) {
			if i.Name != writer.Name {
				told[i.Name] = port.ArchiveStatus{Dropped: "00000001000000000000000" + string(rune('1'+n)), DroppedAt: given.DroppedAt.Add(time.Duration(n) * time.Second)}
			}
		}
		newest := port.ArchiveStatus{}
		for _, st := range told {
			if st.DroppedAt.After(newest.DroppedAt) {
				newest = st
			}
		}
		engine.set(func() {
			engine.says, engine.also = port.ArchiveStatus{Last: given.Last, LastAt: time.Now().UTC()}, told
		})
		time.Sleep(5 * time.Minute)
		g := l.observe("blue").Status.Backup.Gap
		if len(told) == 0 || g == nil || g.Segment != newest.Dropped || backups.count() != 1 {
			t.Errorf("%+v of %+v, %v", g, told, backups.names)
		}
	})
}

// No time is told at which no backup is taken.
func TestTheNextBackupIsOneThatIsTaken(t *testing.T) {
	gapTest(t, func(l *harness, _ *archiving, _ *ordered, _ port.ArchiveStatus) {
		next := func(edit func(*v1alpha1.SharedStorageClusterSpec)) *metav1.Time {
			l.edit("blue", edit)
			time.Sleep(15 * time.Minute)
			return l.observe("blue").Status.Backup.Next
		}
		if at := next(func(s *v1alpha1.SharedStorageClusterSpec) { s.Backup.Every = &metav1.Duration{Duration: time.Hour} }); at == nil {
			t.Error("no next backup of a running cluster")
		}
		if at := next(func(s *v1alpha1.SharedStorageClusterSpec) {
			s.Backup.Repository.EncryptionKey = &v1alpha1.SecretSource{File: "/gone"}
		}); at != nil {
			t.Errorf("%s, with an unknown repository", at)
		}
		if at := next(func(s *v1alpha1.SharedStorageClusterSpec) { s.Backup.Repository.EncryptionKey = nil }); at == nil {
			t.Error("no next backup of a repository that is known again")
		}
		if at := next(func(s *v1alpha1.SharedStorageClusterSpec) { s.Hibernated = true }); at != nil {
			t.Errorf("%s, of a hibernated cluster", at)
		}
	})
}
