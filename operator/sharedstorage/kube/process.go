package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
)

// Process runs in a pod of a cluster, as Instance or Manager.
type Process struct {
	Config *rest.Config // for the account of the pod
	Dir    string       // of an instance: where the claim is mounted
	Log    *slog.Logger // nil: none
	Out    io.Writer    // of an instance: receives the log of its engine as lines of JSON
}

// client returns a client with the permissions of the pod.
func (p Process) client() (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(coordinationv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	config := rest.CopyConfig(p.Config)
	config.Timeout, config.UserAgent = 5*time.Second, "pawl"
	return client.New(config, client.Options{Scheme: scheme})
}

// Instance runs the agent besides an engine until the context ends.
func (p Process) Instance(ctx context.Context) error {
	var config postgres.Config
	if err := variable(InstanceVariable, &config); err != nil {
		return err
	}
	if config.Binaries == "" {
		program, err := exec.LookPath("postgres")
		if err != nil {
			return port.VersionUnsupported.Errorf("this image has no postgres in its PATH: %w", err)
		}
		config.Binaries = filepath.Dir(program)
	}
	dir, err := filepath.Abs(p.Dir)
	if err != nil {
		return err
	}
	if config.Seed, err = settle(dir, config.Cluster.Instance); err != nil {
		return port.StorageFailed.Errorf("the volume: %w", err)
	}
	folder := filepath.Join(dir, config.Cluster.Instance)
	if err := host.WriteJSON(filepath.Join(folder, "config.json"), config); err != nil {
		return port.StorageFailed.Errorf("the volume: %w", err)
	}
	c, err := p.client()
	if err != nil {
		return err
	}
	return postgres.InstanceCommand{Dir: folder, Grants: AgentGrants(c, config.Cluster.Cluster()), Log: p.Log, EngineLog: p.Out}.Run(ctx)
}

// settle creates the folder of an instance on its volume. The data of an instance that had the
// volume before become the seed of this one.
func settle(dir, name string) (seed string, err error) {
	seed = filepath.Join(dir, "seed")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return seed, err
	}
	for _, entry := range entries {
		old := filepath.Join(dir, entry.Name())
		if !entry.IsDir() || entry.Name() == name || entry.Name() == "seed" {
			continue
		}
		switch _, err := os.Stat(filepath.Join(old, "data", "PG_VERSION")); {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return seed, err
		}
		if err := errors.Join(os.RemoveAll(seed), os.Rename(filepath.Join(old, "data"), seed), os.RemoveAll(old)); err != nil {
			return seed, err
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "PG_VERSION")); err == nil {
		return dir, fmt.Errorf("there are data of PostgreSQL in the root of the volume: move them into the folder %s", seed)
	}
	err = os.Mkdir(filepath.Join(dir, name), 0o711)
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return seed, err
}

func variable(name string, into any) error {
	text := os.Getenv(name)
	if text == "" {
		return fmt.Errorf("the variable %s is not set: the operator starts this in a pod", name)
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		return fmt.Errorf("the variable %s: %w", name, err)
	}
	return nil
}

// CopyTo copies this program to a file, for a container of another image.
func CopyTo(file string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	from, err := os.Open(self)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(file+".part", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Close()); err != nil {
		return err
	}
	return os.Rename(file+".part", file)
}

// Manager runs a cluster manager until the context ends, and maintains the role labels of the
// instances.
func (p Process) Manager(ctx context.Context) error {
	var config postgres.WatchConfig
	if err := variable(ManagerVariable, &config); err != nil {
		return err
	}
	c, err := p.client()
	if err != nil {
		return err
	}
	memory := &WatchStateStore{Client: c, Cluster: config.Cluster}
	if err := memory.await(ctx, p.Log); err != nil {
		return err
	}
	watcher, err := postgres.NewWatcher(ctx, postgres.WatcherOptions{Config: config, Grants: AgentGrants(c, config.Cluster), Store: memory, Log: p.Log})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var labelling sync.WaitGroup
	labelling.Go(func() {
		every := time.NewTicker(time.Second)
		defer every.Stop()
		labels := &roles{client: c, cluster: config.Cluster, log: p.Log}
		for {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
				labels.sync(ctx, watcher.Topology())
			}
		}
	})
	err = watcher.Run(ctx)
	cancel()
	labelling.Wait()
	return err
}

// WatchStateStore is a postgres.WatchStateStore in a ConfigMap. The process that saved last is the
// manager: saves of an earlier one fail.
type WatchStateStore struct {
	Client  client.Client
	Cluster port.Ref

	mu   sync.Mutex
	id   string // of this process, the value of savedBy
	kept *corev1.ConfigMap
}

var _ postgres.WatchStateStore = &WatchStateStore{}

const (
	stateKey = "state.json"
	savedBy  = "pawl.dev/saved-by"
)

// Load implements postgres.WatchStateStore.
func (m *WatchStateStore) Load(ctx context.Context) (state postgres.WatchState, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := &corev1.ConfigMap{}
	if err := m.Client.Get(ctx, client.ObjectKey{Namespace: m.Cluster.Namespace, Name: managerName(m.Cluster)}, kept); err != nil {
		return state, err
	}
	m.kept = kept
	if text := kept.Data[stateKey]; text != "" {
		err = json.Unmarshal([]byte(text), &state)
	}
	return state, err
}

// await waits until the state can be read. Somebody may have deleted its object, or the permission
// to read it, and the operator restores both. If the process ended instead, the kubelet would
// restart it with growing pauses.
func (m *WatchStateStore) await(ctx context.Context, log *slog.Logger) error {
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		_, err := m.Load(ctx)
		if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			return err
		}
		if log != nil {
			log.Warn("the state of the cluster manager cannot be read yet", "err", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-every.C:
		}
	}
}

// withoutSync returns the state without the list of readers that have each answered commit.
func withoutSync(data map[string]string) map[string]string {
	var state postgres.WatchState
	if json.Unmarshal([]byte(data[stateKey]), &state) != nil {
		return nil
	}
	state.Sync = postgres.SyncState{}
	text, err := json.Marshal(state)
	if err != nil {
		return nil
	}
	return map[string]string{stateKey: string(text)}
}

// Save implements postgres.WatchStateStore.
func (m *WatchStateStore) Save(ctx context.Context, state postgres.WatchState) error {
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.id == "" {
		m.id = random()
	}
	next := m.with(m.kept, string(text))
	err = m.Client.Update(ctx, next)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // somebody may have deleted it and the operator created it again
		now := &corev1.ConfigMap{}
		if again := m.Client.Get(ctx, client.ObjectKeyFromObject(next), now); again == nil && m.mine(now) {
			next = m.with(now, string(text))
			err = m.Client.Update(ctx, next)
		}
	}
	if err == nil {
		m.kept = next
	}
	return err
}

func (m *WatchStateStore) with(kept *corev1.ConfigMap, state string) *corev1.ConfigMap {
	next := kept.DeepCopy()
	next.Data = map[string]string{stateKey: state}
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, savedBy, m.id)
	return next
}

// mine reports whether no other manager has saved since. A conflict has other causes then: the
// answer to an own save was lost, somebody has changed another part of the object, or the operator
// has created a deleted object again.
func (m *WatchStateStore) mine(now *corev1.ConfigMap) bool {
	by := now.Annotations[savedBy]
	if now.UID != m.kept.UID {
		return by == "" && now.Data[stateKey] == "" || by == m.id || by != "" && by == m.kept.Annotations[savedBy]
	}
	return by == m.id || by == m.kept.Annotations[savedBy] && now.Data[stateKey] == m.kept.Data[stateKey]
}
