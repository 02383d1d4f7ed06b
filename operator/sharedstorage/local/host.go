package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
)

// Managers makes cluster managers as processes.
type Managers struct{ site *Site }

var _ postgres.ManagerHosts = &Managers{}

// Manager is the port of that name.
func (s *Site) Manager() postgres.Manager {
	return postgres.Manager{Hosts: &Managers{s}, Places: s.Instances()}
}

// Ports are the four together.
func (s *Site) Ports() port.Ports {
	return port.Ports{Storage: s.Storage(), Instances: s.Instances(), Engine: s.Engine(), Manager: s.Manager()}
}

// hosted is what is written down of a manager.
type hosted struct {
	Node     string           `json:"node"`
	Address  string           `json:"address"`
	Port     int32            `json:"port"`
	Version  string           `json:"version,omitempty"`
	Process  postgres.Process `json:"process,omitzero"`
	Launched time.Time        `json:"launched,omitzero"`

	folder string
}

const hostedName = "manager.json"

// Ensure implements postgres.ManagerHosts.
func (m *Managers) Ensure(ctx context.Context, c port.Ref, want port.ManagerSpec) (postgres.ManagerPlace, error) {
	var place postgres.ManagerPlace
	err := m.site.locked(func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.site.home(c); err != nil {
			return err
		}
		h, err := m.load(c)
		if err != nil {
			return err
		}
		if h == nil {
			h = &hosted{folder: m.site.folder(c, "manager")}
			if err := os.MkdirAll(h.folder, 0o700); err != nil {
				return trouble(err)
			}
		}
		if err := m.bring(c, h, want); err != nil {
			return err
		}
		place, err = m.place(c, h)
		return err
	})
	return place, err
}

// bring makes the manager run on a node that is right, in the wanted version.
func (m *Managers) bring(c port.Ref, h *hosted, want port.ManagerSpec) error {
	node, err := m.node(h, want.AwayFrom)
	if err != nil {
		return err
	}
	running := h.Process.Lives() && h.Process.Runs(h.folder)
	if running && h.Node == node && h.Version == want.Version {
		return nil
	}
	if running { // what it must not forget is on disk
		h.Process.Kill()
		for began := time.Now(); h.Process.Lives() && time.Since(began) < time.Second; m.site.reap() {
			time.Sleep(time.Millisecond)
		}
	}
	if h.Address == "" {
		everyone, err := m.site.all()
		if err != nil {
			return err
		}
		taken := map[string]bool{}
		for _, r := range everyone {
			taken[r.Address] = true
			taken[join(r.Address, r.Port)], taken[join(r.Address, r.Agent)] = true, true
		}
		at, err := m.site.freeSeat(0, managerPort, taken)
		if err != nil {
			return err
		}
		h.Address, h.Port = at.Address, at.Agent
	}
	h.Node, h.Version = node, want.Version
	config := postgres.WatchConfig{
		Cluster: c.Cluster(), Listen: join(h.Address, h.Port), Node: node, Version: want.Version,
		TokenFile: m.site.folder(c, "secret", "token"), GrantDir: m.site.folder(c, "volume"), Every: postgres.Duration(m.site.o.Every),
	}
	if err := postgres.WriteJSON(filepath.Join(h.folder, configName), config); err != nil {
		return trouble(err)
	}
	p, err := m.site.start(h.folder, "manager.log", "cluster-manager", "--dir", h.folder)
	if err != nil {
		return port.ManagerUnreachable.Errorf("the cluster manager does not start: %w", err)
	}
	h.Process, h.Launched = p, time.Now().UTC()
	return trouble(postgres.WriteJSON(filepath.Join(h.folder, hostedName), h))
}

// node is where the manager stands: where it is, unless that is the writer's
// node or broken and there is another.
func (m *Managers) node(h *hosted, away string) (string, error) {
	var ready []string
	for _, n := range m.site.nodes() {
		if !n.Ready || !n.Schedulable {
			continue
		}
		ready = append(ready, n.Name)
	}
	if len(ready) == 0 {
		return "", port.NoAvailableNode.Errorf("no node is ready for the cluster manager")
	}
	best := ready[0]
	for _, name := range ready {
		if name == h.Node && name != away {
			return name, nil
		}
		if best == away {
			best = name
		}
	}
	return best, nil
}

// Find implements postgres.ManagerHosts.
func (m *Managers) Find(_ context.Context, c port.Ref) (postgres.ManagerPlace, bool, error) {
	h, err := m.load(c)
	if err != nil || h == nil {
		return postgres.ManagerPlace{}, false, err
	}
	place, err := m.place(c, h)
	return place, true, err
}

// Remove implements postgres.ManagerHosts.
func (m *Managers) Remove(_ context.Context, c port.Ref) error {
	return m.site.locked(func() error {
		h, err := m.load(c)
		if err != nil || h == nil {
			return err
		}
		if h.Process.Runs(h.folder) {
			if err := h.Process.Signal(syscall.SIGKILL); err != nil { // what it must not forget goes, too
				return err
			}
		}
		return trouble(os.RemoveAll(h.folder))
	})
}

func (m *Managers) load(c port.Ref) (*hosted, error) {
	if err := check(c.Namespace, c.Name); err != nil {
		return nil, err
	}
	h := &hosted{folder: m.site.folder(c, "manager")}
	err := postgres.ReadJSON(filepath.Join(h.folder, hostedName), h)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return h, trouble(err)
}

func (m *Managers) place(c port.Ref, h *hosted) (postgres.ManagerPlace, error) {
	token, err := os.ReadFile(m.site.folder(c, "secret", "token"))
	if err != nil {
		return postgres.ManagerPlace{}, trouble(err)
	}
	return postgres.ManagerPlace{
		URL: "http://" + join(h.Address, h.Port), Token: strings.TrimSpace(string(token)), Node: h.Node, Address: join(h.Address, h.Port), Version: h.Version,
	}, nil
}

// managersOn ends the managers on a node that breaks.
func (s *Site) managersOn(node string) error {
	files, err := filepath.Glob(filepath.Join(s.o.Dir, "*", "*", "manager", hostedName))
	if err != nil {
		return err
	}
	for _, file := range files {
		var h hosted
		if err := postgres.ReadJSON(file, &h); err != nil {
			return trouble(err)
		}
		if (node == "" || h.Node == node) && h.Process.Runs(filepath.Dir(file)) {
			h.Process.Kill()
		}
	}
	return nil
}
