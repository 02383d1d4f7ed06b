package local

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
)

// Managers runs cluster managers as processes.
type Managers struct{ placement *Placement }

var _ postgres.ManagerHosts = &Managers{}

// Manager returns the port of this name.
func (s *Placement) Manager() postgres.Manager {
	return postgres.Manager{Hosts: &Managers{s}, Locator: s.Instances()}
}

// Ports returns the ports.
func (s *Placement) Ports() port.Ports {
	return port.Ports{Storage: s.Storage(), Instances: s.Instances(), Engine: s.Engine(), Manager: s.Manager(), Pooler: s.Pooler()}
}

// managerRecord is what is stored about a cluster manager.
type managerRecord struct {
	Node     string       `json:"node"`
	Address  string       `json:"address"`
	Port     int32        `json:"port"`
	Version  string       `json:"version,omitempty"`
	Process  host.Process `json:"process,omitzero"`
	Launched time.Time    `json:"launched,omitzero"`
	Named    bool         `json:"named,omitempty"` // its process was started by a version in which it has an identity

	folder string
}

const managerRecordName = "manager.json"

// Ensure implements postgres.ManagerHosts.
func (m *Managers) Ensure(ctx context.Context, c port.Ref, want port.ManagerSpec) (postgres.ManagerEndpoint, error) {
	var place postgres.ManagerEndpoint
	err := m.placement.locked(func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := m.placement.ensureDirs(c); err != nil {
			return err
		}
		h, err := m.load(c)
		if err != nil {
			return err
		}
		if h == nil {
			h = &managerRecord{folder: m.placement.folder(c, "manager")}
			if err := os.MkdirAll(h.folder, 0o700); err != nil {
				return storageFault(err)
			}
		}
		if err := m.ensureRunning(c, h, want); err != nil {
			return err
		}
		place, err = m.endpoint(c, h)
		return err
	})
	return place, err
}

// ensureRunning starts the manager on a suitable node in the desired version.
func (m *Managers) ensureRunning(c port.Ref, h *managerRecord, want port.ManagerSpec) error {
	node, err := m.node(h, want.AwayFrom)
	if err != nil {
		return err
	}
	running := h.Process.Running() && h.Process.Runs(h.folder)
	if running && h.Node == node && h.Version == want.Version && h.Named && (time.Since(h.Launched) < startsFor || answers(h)) {
		return nil
	}
	if running { // its state is on disk, so it can be killed
		h.Process.Kill()
		for began := time.Now(); h.Process.Running() && time.Since(began) < time.Second; m.placement.reap() {
			time.Sleep(time.Millisecond)
		}
	}
	if h.Address == "" {
		everyone, err := m.placement.all()
		if err != nil {
			return err
		}
		taken := map[string]bool{}
		for _, r := range everyone {
			taken[r.Address] = true
			taken[join(r.Address, r.Port)], taken[join(r.Address, r.Agent)] = true, true
		}
		at, err := m.placement.freeEndpoints(0, managerPort, taken)
		if err != nil {
			return err
		}
		h.Address, h.Port = at.Address, at.Agent
	}
	h.Node, h.Version = node, want.Version
	config := postgres.WatchConfig{
		Cluster: c.Cluster(), Listen: join(h.Address, h.Port), Node: node, Version: want.Version,
		TokenFile: m.placement.folder(c, "secret", "token"), TLSDir: m.placement.tlsFolder(c), GrantDir: m.placement.folder(c, "volume"), Every: host.Duration(m.placement.o.Every),
	}
	if err := host.WriteJSON(filepath.Join(h.folder, configName), config); err != nil {
		return storageFault(err)
	}
	p, err := m.placement.start(h.folder, "manager.log", "cluster-manager", "--dir", h.folder)
	if err != nil {
		return port.ManagerUnreachable.Errorf("the cluster manager does not start: %w", err)
	}
	h.Process, h.Launched, h.Named = p, time.Now().UTC(), true
	return storageFault(host.WriteJSON(filepath.Join(h.folder, managerRecordName), h))
}

// startsFor is how long a new manager may take until it answers.
const startsFor = 5 * time.Second

// answers reports whether a manager answers: one that is frozen is started anew.
func answers(h *managerRecord) bool {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+join(h.Address, h.Port)+"/healthz", http.NoBody)
	if err != nil {
		return false
	}
	response, err := healthClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close() // the answer is what counts
	return true
}

var healthClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// node returns the node of the manager. It moves only if its node is broken or is that of the
// writer, and only if there is another node.
func (m *Managers) node(h *managerRecord, away string) (string, error) {
	var ready []string
	for _, n := range m.placement.nodes() {
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
func (m *Managers) Find(_ context.Context, c port.Ref) (postgres.ManagerEndpoint, bool, error) {
	h, err := m.load(c)
	if err != nil || h == nil {
		return postgres.ManagerEndpoint{}, false, err
	}
	place, err := m.endpoint(c, h)
	return place, true, err
}

// Remove implements postgres.ManagerHosts.
func (m *Managers) Remove(_ context.Context, c port.Ref) error {
	return m.placement.locked(func() error {
		h, err := m.load(c)
		if err != nil || h == nil {
			return err
		}
		if h.Process.Runs(h.folder) {
			if err := h.Process.Signal(syscall.SIGKILL); err != nil { // its state is deleted, too
				return err
			}
		}
		return storageFault(os.RemoveAll(h.folder))
	})
}

func (m *Managers) load(c port.Ref) (*managerRecord, error) {
	if err := check(c.Namespace, c.Name); err != nil {
		return nil, err
	}
	h := &managerRecord{folder: m.placement.folder(c, "manager")}
	err := host.ReadJSON(filepath.Join(h.folder, managerRecordName), h)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return h, storageFault(err)
}

func (m *Managers) endpoint(c port.Ref, h *managerRecord) (postgres.ManagerEndpoint, error) {
	token, err := os.ReadFile(m.placement.folder(c, "secret", "token"))
	if err != nil {
		return postgres.ManagerEndpoint{}, storageFault(err)
	}
	return postgres.ManagerEndpoint{
		Trust: m.placement.authoritiesOf(c), URL: "http://" + join(h.Address, h.Port), Token: strings.TrimSpace(string(token)), Node: h.Node, Address: join(h.Address, h.Port), Version: h.Version,
	}, nil
}

// managersOn kills the managers on a node that breaks.
func (s *Placement) managersOn(node string) error {
	files, err := filepath.Glob(filepath.Join(s.o.Dir, "*", "*", "manager", managerRecordName))
	if err != nil {
		return err
	}
	for _, file := range files {
		var h managerRecord
		if err := host.ReadJSON(file, &h); err != nil {
			return storageFault(err)
		}
		if (node == "" || h.Node == node) && h.Process.Runs(filepath.Dir(file)) {
			h.Process.Kill()
		}
	}
	return nil
}
