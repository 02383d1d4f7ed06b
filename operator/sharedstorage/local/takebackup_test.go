package local

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/backups"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runstore"
)

// scripted are the ports of a cluster whose writer and backups a test scripts. A backup takes ten
// seconds of the virtual clock.
type scripted struct {
	port.Engine // nil: those methods are not called

	mu     sync.Mutex
	writer string
	fails  int // backups that fail at their end
	jobs   map[string]port.Backup
	taken  []port.Backup
	orders []string
}

func (s *scripted) ports() port.Ports {
	return port.Ports{Storage: storageOf{s: s}, Instances: instancesOf{}, Engine: s}
}

type instancesOf struct{ port.Instances }

func (instancesOf) List(context.Context, port.Ref) ([]port.Instance, error) {
	return []port.Instance{{Name: "a", ID: "1", State: port.Up}, {Name: "b", ID: "2", State: port.Up}}, nil
}

type storageOf struct {
	port.Storage
	s *scripted
}

func (o storageOf) Observe(context.Context, port.Ref) (port.Volume, error) {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	return port.Volume{State: port.VolumeReady, Writer: o.s.writer}, nil
}

func (s *scripted) Status(_ context.Context, id port.Ref) (port.Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := port.Status{Ready: true, Role: port.Follower}
	if id.Instance == s.writer {
		st.Role, st.Archive.Repository = port.Primary, theRepository.Hash()
	}
	return st, nil
}

func (s *scripted) Archive(context.Context, port.Ref, *port.Repository) error { return nil }

func (s *scripted) Backup(_ context.Context, id port.Ref, want port.BackupOrder) (port.Backup, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id.Instance != s.writer {
		return port.Backup{}, port.WriterUnhealthy.Errorf("%s does not write", id.Instance)
	}
	key := id.Instance + "/" + want.Key
	b, known := s.jobs[key]
	switch {
	case !known && want.Follow:
		return port.Backup{}, nil
	case !known, b.State == port.JobFailed && !want.Follow:
		s.orders = append(s.orders, id.Instance)
		b = port.Backup{Key: want.Key, State: port.JobRunning, Started: time.Now()}
	case b.State == port.JobRunning && time.Since(b.Started) >= 10*time.Second && s.fails > 0:
		s.fails--
		b.State, b.Code, b.Message = port.JobFailed, string(port.BackupFailed.Code), "the disk is full"
	case b.State == port.JobRunning && time.Since(b.Started) >= 10*time.Second:
		b.State, b.Label, b.Type, b.Ended = port.JobDone, "label-"+want.Key[:4], want.Type, time.Now()
		s.taken = append(s.taken, b)
	}
	s.jobs[key] = b
	return b, nil
}

func (s *scripted) Backups(context.Context, port.Ref) ([]port.Backup, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken[len(s.taken)-1:], nil // the retention is one
}

func (s *scripted) Verify(_ context.Context, _ port.Ref, want port.VerifyOrder) (port.Backup, error) {
	return port.Backup{Key: want.Key, State: port.JobDone, Label: want.Label}, nil
}

var theRepository = &port.Repository{Stanza: "default-orders", Folder: "/r"}

// backing is an operator of backups over a scripted cluster.
type backing struct {
	t       *testing.T
	objects *control.Memory
	script  *scripted
}

func inBacking(t *testing.T, script *scripted, do func(b *backing)) {
	synctest.Test(t, func(t *testing.T) {
		script.writer, script.jobs = "a", map[string]port.Backup{}
		b := &backing{t: t, objects: control.NewMemory(), script: script}
		clusters, quiet := ClusterStore{Objects: b.objects}, slog.New(slog.DiscardHandler)
		o, err := backups.New(backups.Options{Store: BackupStore{Objects: b.objects}, Clusters: clusters, Ports: script.ports(), Logger: quiet,
			Repository: func(context.Context, *sharedstorage.Cluster) (*port.Repository, error) { return theRepository, nil }})
		if err != nil {
			t.Fatal(err)
		}
		flows, err := o.Flows()
		if err != nil {
			t.Fatal(err)
		}
		engine, err := workflow.New(runstore.NewMemory(), flows, workflow.Options{Actions: o.Actions(), Hooks: []workflow.Hook{o.Hook()}, Healers: o.Healers(), Logger: quiet})
		if err == nil {
			err = o.Bind(engine)
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		work.Go(func() { _ = engine.Serve(ctx) })
		work.Go(func() {
			_ = Controller{Kind: backups.Kind, Operator: o, Objects: b.objects, Touch: engine.Touch, Log: quiet}.Serve(ctx)
		})
		b.apply(sharedstorage.Kind, "orders", `{"backup":{"repository":{"folder":"/r"}}}`)
		do(b)
		cancel()
		work.Wait()
	})
}

func (b *backing) apply(kind, name, spec string) {
	b.t.Helper()
	if _, err := b.objects.Apply(b.t.Context(), control.Object{Ref: control.Ref{Kind: kind, Namespace: "default", Name: name}, Spec: json.RawMessage(spec)}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *backing) status(name string) (s v1alpha1.SharedStorageBackupStatus) {
	b.t.Helper()
	o, err := b.objects.Get(b.t.Context(), control.Ref{Kind: backups.Kind, Namespace: "default", Name: name})
	if err == nil && len(o.Status) > 0 {
		err = json.Unmarshal(o.Status, &s)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func (b *backing) completed(name string) v1alpha1.SharedStorageBackupStatus {
	b.t.Helper()
	time.Sleep(5 * time.Minute) // of the virtual clock
	s := b.status(name)
	if s.State != string(backups.Completed) || s.Label == "" {
		b.t.Errorf("%s: %+v %+v", name, s, s.Run)
	}
	return s
}

// When another instance becomes the writer, the backup is taken there.
func TestABackupMovesWithTheWriter(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	script := &scripted{}
	inBacking(t, script, func(b *backing) {
		b.apply(backups.Kind, "one", `{"cluster":"orders"}`)
		time.Sleep(5 * time.Second)
		script.mu.Lock()
		script.writer = "b"
		script.mu.Unlock()
		b.completed("one")
		if len(script.orders) != 2 || script.orders[0] != "a" || script.orders[1] != "b" {
			t.Errorf("it was ordered of %v", script.orders)
		}
	})
}

// A backup that fails is tried three times more; then it waits for a person, with the remedy.
func TestABackupThatFails(t *testing.T) {
	inBacking(t, &scripted{fails: 2}, func(b *backing) {
		b.apply(backups.Kind, "one", `{"cluster":"orders"}`)
		b.completed("one")
	})
	inBacking(t, &scripted{fails: 1000}, func(b *backing) {
		b.apply(backups.Kind, "one", `{"cluster":"orders"}`)
		time.Sleep(2 * time.Hour)
		s := b.status("one")
		if s.State != "Interrupted" || s.Run == nil || s.Run.Code != "BACKUP_FAILED" || s.Run.Remedy == "" {
			t.Errorf("%+v %+v", s, s.Run)
		}
		if n := len(b.script.orders); n != 4 {
			t.Errorf("it was ordered %d times", n)
		}
	})
}

// What the retention has removed is marked; what the schedule has made is deleted.
func TestExpiredBackups(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-long runs it")
	}
	inBacking(t, &scripted{}, func(b *backing) {
		b.apply(backups.Kind, "by-hand", `{"cluster":"orders","verify":true}`)
		if s := b.completed("by-hand"); s.Verified == nil {
			t.Errorf("%+v", s)
		}
		store := BackupStore{Objects: b.objects}
		scheduled := &v1alpha1.SharedStorageBackup{Spec: v1alpha1.SharedStorageBackupSpec{Cluster: "orders"}}
		scheduled.Namespace, scheduled.Name, scheduled.Labels = "default", "scheduled", map[string]string{sharedstorage.ScheduledLabel: "orders"}
		for range 2 { // the second is no error
			if err := store.Create(t.Context(), scheduled); err != nil {
				t.Fatal(err)
			}
		}
		b.completed("scheduled")
		if s := b.status("by-hand"); !s.Expired {
			t.Errorf("%+v", s)
		}
		b.apply(backups.Kind, "last", `{"cluster":"orders"}`)
		b.completed("last")
		if _, err := store.Load(t.Context(), "default", "scheduled"); err == nil {
			t.Error("an expired backup of the schedule is left")
		}
	})
}
