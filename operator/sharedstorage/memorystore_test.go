package sharedstorage_test

import (
	"context"
	"encoding/json"
	"maps"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// memoryStore keeps clusters in memory as JSON, so that callers share nothing.
type memoryStore struct {
	mu       sync.Mutex
	clusters map[string]*storedCluster
	uids     int
	classes  map[string]port.Class
	writes   int
	refused  error
	notify   func(name string) // called after a change of spec or annotations
	point    func() error      // called before and after each write
}

type storedCluster struct {
	ref         port.Ref
	generation  int64
	created     time.Time
	deleted     time.Time
	annotations map[string]string
	finalized   bool
	spec        []byte
	status      []byte
	version     int
}

func newMemoryStore() *memoryStore {
	return &memoryStore{clusters: map[string]*storedCluster{}, classes: map[string]port.Class{
		"small": {Name: "small", CPU: 1000, Memory: 1 << 30, Parameters: map[string]string{"shared_buffers": "128MB"}},
		"large": {Name: "large", CPU: 4000, Memory: 8 << 30, Parameters: map[string]string{"shared_buffers": "1GB"}},
	}}
}

func (h *memoryStore) Load(_ context.Context, ref port.Ref) (*sharedstorage.Cluster, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.clusters[ref.Name]
	if k == nil {
		return nil, control.NotFoundError(control.Ref{Kind: sharedstorage.Kind, Namespace: ref.Namespace, Name: ref.Name})
	}
	c := &sharedstorage.Cluster{Ref: k.ref, Generation: k.generation, CreatedAt: k.created, DeletedAt: k.deleted,
		Annotations: maps.Clone(k.annotations), Finalized: k.finalized, Version: k.version, Refused: h.refused}
	if err := json.Unmarshal(k.spec, &c.Spec); err != nil {
		return nil, err
	}
	if len(k.status) > 0 {
		if err := json.Unmarshal(k.status, &c.Status); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (h *memoryStore) struck() error {
	if h.point == nil {
		return nil
	}
	return h.point()
}

func (h *memoryStore) change(c *sharedstorage.Cluster, change func(k *storedCluster) error) error {
	if err := h.struck(); err != nil {
		return err
	}
	h.mu.Lock()
	k := h.clusters[c.Ref.Name]
	if k == nil || k.version != c.Version {
		h.mu.Unlock()
		return fault.WriteConflict.Errorf("%s was changed", c.Ref)
	}
	if err := change(k); err != nil {
		h.mu.Unlock()
		return err
	}
	k.version++
	h.writes++
	c.Version = k.version
	if !k.deleted.IsZero() && !k.finalized {
		delete(h.clusters, c.Ref.Name)
	}
	h.mu.Unlock()
	return h.struck()
}

func (h *memoryStore) Save(_ context.Context, c *sharedstorage.Cluster) error {
	return h.change(c, func(k *storedCluster) (err error) {
		k.finalized = c.Finalized
		k.status, err = json.Marshal(c.Status)
		return err
	})
}

func (h *memoryStore) Annotate(_ context.Context, c *sharedstorage.Cluster, key, from, to string) error {
	return h.change(c, func(k *storedCluster) error {
		if k.annotations[key] != from {
			return fault.WriteConflict.Errorf("annotation %s is %q", key, k.annotations[key])
		}
		if k.annotations[key] = to; to == "" {
			delete(k.annotations, key)
		}
		return nil
	})
}

func (h *memoryStore) Classes(context.Context, string) (map[string]port.Class, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.classes), nil
}

// user changes a cluster as people do.
func (h *memoryStore) user(name string, change func(k *storedCluster)) {
	h.mu.Lock()
	k := h.clusters[name]
	if k != nil {
		change(k)
		k.version++
		if !k.deleted.IsZero() && !k.finalized {
			delete(h.clusters, name)
		}
	}
	h.mu.Unlock()
	if h.notify != nil {
		h.notify(name)
	}
}
