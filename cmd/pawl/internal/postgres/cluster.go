package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/cmd/pawl/internal/backend"
	"github.com/pawl-dev/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/operator/sharedstorage"
	"github.com/pawl-dev/pawl/operator/sharedstorage/local"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// healthy is the health of an instance that does what it should.
const healthy = string(sharedstorage.Healthy)

// cluster is a cluster as its object describes it, and the way to its instances.
type cluster struct {
	backend backend.Backend
	objects control.Objects
	host    host
	now     func() time.Time

	object control.Object
	spec   v1alpha1.SharedStorageClusterSpec
	status status
}

// status is the status of a cluster. Folder is that of a standalone one.
type status struct {
	v1alpha1.SharedStorageClusterStatus

	Folder string `json:"folder"`
}

// instance is one instance of a cluster.
type instance struct {
	v1alpha1.InstanceStatus

	id      string
	cluster port.Ref
}

// host runs programs for instances and reads their logs: on Kubernetes or as processes of this machine.
type host interface {
	// run runs a client program of PostgreSQL, which finds the instance and its password in its environment.
	run(ctx context.Context, i instance, program string, args []string, s streams) (code int, err error)
	// sources returns the logs of an instance.
	sources(i instance) []source
	// manager returns the log of the cluster manager.
	manager(ctx context.Context) ([]source, error)
	// secrets returns the secrets of the cluster, so that they can be removed from what is printed.
	secrets(ctx context.Context) ([]string, error)
	// metrics returns what the instance tells Prometheus.
	metrics(ctx context.Context, i instance) ([]byte, error)
	// more returns what only this host knows of the cluster, by the name of a file.
	more(ctx context.Context) (map[string]any, error)
}

// open reads a cluster.
func (a verbs) open(ctx context.Context, w where, name string) (*cluster, error) {
	b, err := a.Open(ctx, cli.Reads)
	if err != nil {
		return nil, err
	}
	c := &cluster{backend: b, now: time.Now}
	if d, ok := b.(interface{ Now() time.Time }); ok {
		c.now = d.Now
	}
	if c.objects, err = b.Objects(); err == nil {
		c.object.Ref = a.RefOf(sharedstorage.Kind, w.namespace, name)
		err = c.read(ctx)
	}
	if err != nil {
		_ = c.Close() // the first error counts
		return nil, err
	}
	if pods, ok := b.(backend.Pods); ok {
		c.host = podHost{pods, c.ref()}
	} else {
		c.host = processHost{local.Folder(c.status.Folder), c.ref()}
	}
	return c, nil
}

// Close closes the way to the cluster.
func (c *cluster) Close() error { return c.backend.Close() }

// read reads the object anew.
func (c *cluster) read(ctx context.Context) error {
	o, err := c.objects.Get(ctx, c.object.Ref)
	if err != nil {
		return err
	}
	return c.set(o)
}

func (c *cluster) set(o control.Object) error {
	c.object, c.spec, c.status = o, v1alpha1.SharedStorageClusterSpec{}, status{}
	for _, part := range []struct {
		raw  json.RawMessage
		into any
	}{{o.Spec, &c.spec}, {o.Status, &c.status}} {
		if len(part.raw) == 0 {
			continue
		}
		if err := json.Unmarshal(part.raw, part.into); err != nil {
			return fmt.Errorf("%s: %w", o.Ref, err)
		}
	}
	return nil
}

func (c *cluster) ref() port.Ref {
	return port.Ref{Namespace: c.object.Namespace, Name: c.object.Name, UID: c.object.UID}
}

// text names the cluster for people.
func (c *cluster) text() string { return c.object.Namespace + "/" + c.object.Name }

// instances returns all instances: by id, numbers first.
func (c *cluster) instances() []instance {
	all := make([]instance, 0, len(c.status.Instances))
	for id, i := range c.status.Instances {
		all = append(all, instance{i, id, c.ref()})
	}
	number := func(i instance) int {
		n, err := strconv.Atoi(i.id)
		if err != nil {
			return 1 << 30
		}
		return n
	}
	slices.SortFunc(all, func(a, b instance) int {
		return cmp.Or(cmp.Compare(number(a), number(b)), strings.Compare(a.id, b.id))
	})
	return all
}

// instance returns the one with this id or name.
func (c *cluster) instance(id string) (instance, error) {
	var ids []string
	for _, i := range c.instances() {
		if i.id == id || i.Name == id {
			return i, nil
		}
		ids = append(ids, i.id)
	}
	return instance{}, sharedstorage.InstanceUnknown.Errorf("%s has no instance %s; it has %s", c.text(), id, cmp.Or(strings.Join(ids, ", "), "none"))
}

// choose returns the instance that a verb means: the one with an id, a reader, or the writer.
func (c *cluster) choose(id string, reader bool) (instance, error) {
	if id != "" {
		return c.instance(id)
	}
	role := string(port.Writer)
	if reader {
		role = string(port.Reader)
	}
	for _, i := range c.instances() {
		if i.Role == role && i.Health == healthy {
			return i, nil
		}
	}
	if reader {
		return instance{}, NoWriter.Errorf("%s has no healthy reader", c.text())
	}
	return instance{}, NoWriter.Errorf("%s has no healthy writer", c.text())
}
