package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/pooler"
	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
)

// poolers runs poolers as processes, in Dir/<namespace>/<cluster>/pooler/<name>/.
type poolers struct{ placement *Placement }

var _ pooler.Hosts = poolers{}

// Pooler returns the port of this name.
func (s *Placement) Pooler() pooler.Port {
	return pooler.Port{Hosts: poolers{s}, Locator: s.Instances()}
}

// poolerRecord is what is stored about a pooler.
type poolerRecord struct {
	Name    string       `json:"name"`
	Node    string       `json:"node"`
	Address string       `json:"address"`
	Port    int32        `json:"port"`
	Control int32        `json:"control"` // port of its supervisor
	Process host.Process `json:"process,omitzero"`
	Named   bool         `json:"named,omitempty"` // its process was started by a version in which it has an identity

	folder string
}

const (
	poolerRecordName = "pooler.json"
	poolerPort       = 6432 // of pgbouncer, by its default
	supervisorPort   = 7296
)

// Ensure implements pooler.Hosts. It starts a pooler again whose process is gone.
func (p poolers) Ensure(ctx context.Context, c port.Ref, want port.PoolerSpec) error {
	return p.placement.locked(func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		had, err := p.load(c)
		if err != nil {
			return err
		}
		for _, r := range had[min(len(had), want.Instances):] {
			if err := p.remove(r); err != nil {
				return err
			}
		}
		if want.Instances == 0 {
			return storageFault(os.RemoveAll(p.placement.folder(c, "pooler")))
		}
		if err := p.placement.ensureDirs(c); err != nil {
			return err
		}
		had = had[:min(len(had), want.Instances)]
		for n := len(had); n < want.Instances; n++ {
			r, err := p.create(c, fmt.Sprintf("%s-pooler-%d", c.Name, n+1), n)
			if err != nil {
				return err
			}
			had = append(had, r)
		}
		for _, r := range had {
			if err := errors.Join(p.convert(c, r), p.launch(c, r)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p poolers) create(c port.Ref, name string, n int) (*poolerRecord, error) {
	r := &poolerRecord{Name: name, folder: p.placement.folder(c, "pooler", name)}
	if err := os.MkdirAll(r.folder, 0o711); err != nil {
		return nil, storageFault(err)
	}
	if err := os.Chmod(filepath.Dir(r.folder), 0o711); err != nil { // pgbouncer has another user when this process is root
		return nil, storageFault(err)
	}
	taken, err := p.placement.taken()
	if err != nil {
		return nil, err
	}
	at, err := p.placement.freeEndpoints(poolerPort, supervisorPort, taken)
	if err != nil {
		return nil, err
	}
	r.Address, r.Port, r.Control = at.Address, at.Engine, at.Agent
	if nodes := p.placement.nodes(); len(nodes) > 0 {
		r.Node = nodes[n%len(nodes)].Name
	}
	return r, storageFault(errors.Join(p.configure(c, r), host.WriteJSON(filepath.Join(r.folder, poolerRecordName), r)))
}

func (p poolers) configure(c port.Ref, r *poolerRecord) error {
	return host.WriteJSON(filepath.Join(r.folder, configName), pooler.Config{
		Cluster: c.Cluster(), Name: r.Name, Listen: join(r.Address, r.Control), Host: r.Address, Port: r.Port, User: p.placement.o.User,
		TokenFile: p.placement.folder(c, "secret", "token"), PasswordFile: p.placement.folder(c, "secret", "password"), TLSDir: p.placement.tlsFolder(c),
	})
}

// convert gives a pooler that was started by an earlier version its certificate: it starts anew.
func (p poolers) convert(c port.Ref, r *poolerRecord) error {
	if r.Named {
		return nil
	}
	if err := p.end(r); err != nil {
		return err
	}
	return storageFault(p.configure(c, r))
}

func (p poolers) launch(c port.Ref, r *poolerRecord) error {
	if _, down := p.placement.down(r.Node); down || r.Process.Running() && r.Process.Runs(r.folder) {
		return nil
	}
	process, err := p.placement.start(r.folder, "pooler.log", "pooler", "--dir", r.folder)
	if err != nil {
		return port.PoolerFailed.Errorf("pooler %s of %s does not start: %w", r.Name, c, err)
	}
	r.Process, r.Named = process, true
	return storageFault(host.WriteJSON(filepath.Join(r.folder, poolerRecordName), r))
}

// endPooler is how long a supervisor may take to end pgbouncer and itself.
const endPooler = 2 * time.Second

func (p poolers) remove(r *poolerRecord) error {
	if err := p.end(r); err != nil {
		return err
	}
	return storageFault(os.RemoveAll(r.folder))
}

func (p poolers) end(r *poolerRecord) error {
	if r.Process.Runs(r.folder) {
		if err := r.Process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		for began := time.Now(); r.Process.Running() && time.Since(began) < endPooler; p.placement.reap() {
			time.Sleep(time.Millisecond)
		}
		r.Process.Kill()
	}
	return nil
}

// load returns the poolers of a cluster, sorted by name.
func (p poolers) load(c port.Ref) ([]*poolerRecord, error) {
	if err := check(c.Namespace, c.Name); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(p.placement.folder(c, "pooler", "*", poolerRecordName))
	if err != nil {
		return nil, err
	}
	var all []*poolerRecord
	for _, file := range files {
		r := &poolerRecord{folder: filepath.Dir(file)}
		if err := host.ReadJSON(file, r); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, storageFault(err)
		}
		all = append(all, r)
	}
	return all, nil
}

// List implements pooler.Hosts.
func (p poolers) List(_ context.Context, c port.Ref) ([]pooler.Endpoint, error) {
	all, err := p.load(c)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	token, err := os.ReadFile(p.placement.folder(c, "secret", "token"))
	if err != nil {
		return nil, storageFault(err)
	}
	var found []pooler.Endpoint
	for _, r := range all {
		found = append(found, pooler.Endpoint{Trust: p.placement.authoritiesOf(c), Name: r.Name, Node: r.Node, URL: "http://" + join(r.Address, r.Control), Token: strings.TrimSpace(string(token))})
	}
	return found, nil
}
