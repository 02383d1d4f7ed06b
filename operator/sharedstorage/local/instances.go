package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/host"
	"github.com/pawl-dev/pawl/operator/sharedstorage/postgres/lease"
)

// Instances implements port.Instances with folders and processes.
type Instances struct{ placement *Placement }

var (
	_ port.Instances   = &Instances{}
	_ postgres.Locator = &Instances{}
)

// instanceRecord is what is stored about an instance.
type instanceRecord struct {
	port.Instance
	Agent    int32        `json:"agent"` // port of its agent
	Launched time.Time    `json:"launched,omitzero"`
	Process  host.Process `json:"process,omitzero"` // of the agent, as it was last started
	Leaving  time.Time    `json:"leaving,omitzero"`
	Ending   time.Time    `json:"ending,omitzero"`  // since when its agent is being stopped, to be recreated
	Suspend  time.Time    `json:"suspend,omitzero"` // since when it is not to run

	cluster port.Ref
	folder  string
}

// seenState is the last observed state, and since when.
type seenState struct {
	state port.InstanceState
	since time.Time
}

const (
	instanceRecordName = "instance.json"
	configName         = "config.json"
	queriesName        = "metrics.yaml"
	agentTimeout       = 15 * time.Second // then an agent that does not answer counts as down
	stopGrace          = 30 * time.Second // for an agent to stop its engine and end
)

// Ensure implements port.Instances. It starts an instance again whose process is gone.
func (i *Instances) Ensure(ctx context.Context, c port.Ref, want port.Instance) (port.Instance, error) {
	if err := check(want.Name); err != nil {
		return port.Instance{}, err
	}
	var r *instanceRecord
	err := i.placement.locked(func() (err error) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r, err = i.placement.load(c, want.Name); err != nil {
			return err
		}
		if r == nil {
			if r, err = i.placement.create(c, want); err != nil {
				return err
			}
		}
		if !r.Leaving.IsZero() {
			return nil
		}
		if want.ID != "" && r.ID != want.ID || want.Type != "" && r.Type != want.Type {
			r.ID, r.Type = want.ID, want.Type
			if err := r.save(); err != nil {
				return err
			}
		}
		return i.placement.resume(r)
	})
	if err != nil {
		return port.Instance{}, err
	}
	return i.placement.observe(ctx, r), nil
}

// Remove implements port.Instances. The data of the writer stay with the volume.
func (i *Instances) Remove(ctx context.Context, c port.Ref, name string) error {
	if err := check(name); err != nil {
		return err
	}
	return i.placement.locked(func() error {
		r, err := i.placement.load(c, name)
		if err != nil || r == nil {
			return err
		}
		if r.Leaving.IsZero() {
			r.Leaving = time.Now().UTC()
			if err := r.save(); err != nil {
				return err
			}
		}
		_, err = i.placement.continueRemoval(ctx, r)
		return err
	})
}

// List implements port.Instances.
func (i *Instances) List(ctx context.Context, c port.Ref) ([]port.Instance, error) {
	var all []*instanceRecord
	err := i.placement.locked(func() (err error) {
		if all, err = i.placement.instancesOf(c); err != nil {
			return err
		}
		for n, r := range all {
			if r.Leaving.IsZero() {
				continue
			}
			if gone, err := i.placement.continueRemoval(ctx, r); err != nil {
				return err
			} else if gone {
				all[n] = nil
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(r *instanceRecord) bool { return r == nil })
	seen := make([]port.Instance, len(all))
	var asking sync.WaitGroup
	for n, r := range all {
		asking.Go(func() { seen[n] = i.placement.observe(ctx, r) })
	}
	asking.Wait()
	return seen, ctx.Err()
}

// Locate implements postgres.Locator.
func (i *Instances) Locate(_ context.Context, id port.Ref) (postgres.Endpoint, error) {
	if err := check(id.Instance); err != nil {
		return postgres.Endpoint{}, err
	}
	r, err := i.placement.load(id, id.Instance)
	if err != nil {
		return postgres.Endpoint{}, err
	}
	if r == nil {
		return postgres.Endpoint{}, port.PodLost.Errorf("there is no instance %s", id)
	}
	return i.placement.endpoint(r)
}

func (s *Placement) endpoint(r *instanceRecord) (postgres.Endpoint, error) {
	token, err := os.ReadFile(s.folder(r.cluster, "secret", "token"))
	if errors.Is(err, fs.ErrNotExist) { // somebody has removed it: all processes take the new one
		if err := s.ensureDirs(r.cluster); err != nil {
			return postgres.Endpoint{}, err
		}
		token, err = os.ReadFile(s.folder(r.cluster, "secret", "token"))
	}
	if err != nil {
		return postgres.Endpoint{}, storageFault(err)
	}
	return postgres.Endpoint{
		Trust: s.authoritiesOf(r.cluster), Agent: "http://" + join(r.Address, r.Agent), Token: strings.TrimSpace(string(token)),
		Engine: postgres.Upstream{Name: r.Name, Host: r.Address, Port: r.Port},
	}, nil
}

// Password returns the password of the superuser postgres in the engines of a cluster.
func (s *Placement) Password(c port.Ref) (string, error) {
	text, err := os.ReadFile(s.folder(c, "secret", "password"))
	return strings.TrimSpace(string(text)), storageFault(err)
}

func (s *Placement) load(c port.Ref, name string) (*instanceRecord, error) {
	r := &instanceRecord{cluster: c.Cluster(), folder: s.folder(c, "instances", name)}
	err := host.ReadJSON(filepath.Join(r.folder, instanceRecordName), r)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return r, storageFault(err)
}

func (r *instanceRecord) save() error {
	return storageFault(host.WriteJSON(filepath.Join(r.folder, instanceRecordName), r))
}

// instancesOf returns all instances of a cluster, by name.
func (s *Placement) instancesOf(c port.Ref) ([]*instanceRecord, error) {
	entries, err := os.ReadDir(s.folder(c, "instances"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, storageFault(err)
	}
	var all []*instanceRecord
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		r, err := s.load(c, entry.Name())
		if err != nil {
			return nil, err
		}
		if r != nil {
			all = append(all, r)
		}
	}
	return all, nil
}

// all returns the instances of all clusters.
func (s *Placement) all() ([]*instanceRecord, error) {
	folders, err := filepath.Glob(filepath.Join(s.o.Dir, "*", "*", "instances"))
	if err != nil {
		return nil, err
	}
	var all []*instanceRecord
	for _, folder := range folders {
		cluster := filepath.Dir(folder)
		rs, err := s.instancesOf(port.Ref{Namespace: filepath.Base(filepath.Dir(cluster)), Name: filepath.Base(cluster)})
		if err != nil {
			return nil, err
		}
		all = append(all, rs...)
	}
	return all, nil
}

// taken returns the addresses, and the host:port, of the instances of all clusters.
func (s *Placement) taken() (map[string]bool, error) {
	everyone, err := s.all()
	taken := map[string]bool{}
	for _, r := range everyone {
		taken[r.Address] = true
		taken[join(r.Address, r.Port)], taken[join(r.Address, r.Agent)] = true, true
	}
	return taken, err
}

// create creates the folder of an instance, complete or not at all.
func (s *Placement) create(c port.Ref, want port.Instance) (*instanceRecord, error) {
	if err := s.ensureDirs(c); err != nil {
		return nil, err
	}
	version, binaries, err := s.binaries(want.Version)
	if err != nil {
		return nil, err
	}
	siblings, err := s.instancesOf(c)
	if err != nil {
		return nil, err
	}
	load := map[string]int{}
	for _, r := range siblings {
		load[r.Node]++
	}
	node, err := choose(want, s.nodes(), load)
	if err != nil {
		return nil, err
	}
	taken, err := s.taken()
	if err != nil {
		return nil, err
	}
	at, err := s.freeEndpoints(want.Port, agentPort, taken)
	if err != nil {
		return nil, err
	}
	r := &instanceRecord{Instance: want, cluster: c.Cluster(), folder: s.folder(c, "instances", want.Name)}
	r.Version, r.Node, r.Address, r.Port, r.Agent = version, node, at.Address, at.Engine, at.Agent
	r.State, r.Message, r.Since = "", "", time.Time{}

	made := s.folder(c, "instances", "."+want.Name)
	if err := os.RemoveAll(made); err != nil {
		return nil, storageFault(err)
	}
	if err := os.Mkdir(made, 0o711); err != nil {
		return nil, storageFault(err)
	}
	if err := errors.Join(host.WriteJSON(filepath.Join(made, configName), s.config(c, r, binaries)), host.WriteJSON(filepath.Join(made, instanceRecordName), r)); err != nil {
		return nil, storageFault(err)
	}
	return r, storageFault(os.Rename(made, r.folder))
}

// config returns the configuration of the agent of an instance.
func (s *Placement) config(c port.Ref, r *instanceRecord, binaries string) postgres.Config {
	return postgres.Config{
		Cluster: c.Of(r.Name), Listen: join(r.Address, r.Agent), Host: r.Address, Port: r.Port, Binaries: binaries, Version: r.Version, User: s.o.User,
		TLSDir: s.tlsFolder(c), TokenFile: s.folder(c, "secret", "token"), PasswordFile: s.folder(c, "secret", "password"),
		GrantDir: s.folder(c, "volume"), Seed: s.folder(c, "volume", "seed"), Lease: host.Duration(s.o.Lease),
		QueriesFile: s.folder(c, queriesName), Parameters: r.Class.Parameters, Command: append(slices.Clone(s.o.Program), "instance"),
	}
}

// launch starts the agent if it does not run.
func (s *Placement) launch(r *instanceRecord) error {
	if _, down := s.down(r.Node); down || s.agent(r).Running() {
		return nil
	}
	p, err := s.start(r.folder, "agent.log", "instance", "--dir", r.folder)
	if err != nil {
		return port.PodLost.Errorf("the agent of %s does not start: %w", r.Name, err)
	}
	r.Process, r.Launched, r.Ending = p, time.Now().UTC(), time.Time{}
	return r.save()
}

// agent returns the process of an instance, as the record has it or as the agent recorded itself.
func (s *Placement) agent(r *instanceRecord) host.Process { return agentIn(r.folder, r.Process) }

func agentIn(folder string, started host.Process) host.Process {
	if started.Running() && started.Runs(folder) {
		return started
	}
	if written := postgres.AgentOf(folder); written.Running() && written.Runs(folder) {
		return written
	}
	return host.Process{}
}

// crash kills the processes in a folder, as a power cut would.
func (s *Placement) crash(folder string) {
	var r instanceRecord
	_ = host.ReadJSON(filepath.Join(folder, instanceRecordName), &r) // without it, the file of the agent is used
	agentIn(folder, r.Process).Kill()
	postgres.EngineOf(folder).Kill()
}

// continueRemoval continues a removal and reports whether the instance is gone.
func (s *Placement) continueRemoval(ctx context.Context, r *instanceRecord) (bool, error) {
	if ended, err := s.end(r, r.Leaving); !ended || err != nil {
		return false, err
	}
	g, err := lease.GrantFile{Dir: s.folder(r.cluster, "volume")}.Read(ctx)
	if err != nil {
		return false, err
	}
	data, seed := filepath.Join(r.folder, "data"), s.folder(r.cluster, "volume", "seed")
	if exists(data) && g.Epoch > 0 && (g.Writer == r.Name || postgres.WroteUnder(r.folder) == g.Epoch) {
		if err := os.RemoveAll(seed); err != nil {
			return false, storageFault(err)
		}
		if err := os.Rename(data, seed); err != nil {
			return false, storageFault(err)
		}
	}
	gone := s.folder(r.cluster, "instances", ".gone-"+r.Name)
	if err := os.RemoveAll(gone); err != nil {
		return false, storageFault(err)
	}
	if err := os.Rename(r.folder, gone); err != nil {
		return false, storageFault(err)
	}
	return true, storageFault(os.RemoveAll(gone))
}

// observe returns the current state of an instance.
func (s *Placement) observe(ctx context.Context, r *instanceRecord) port.Instance {
	seen := r.Instance
	since, down := s.down(r.Node)
	switch {
	case !r.Leaving.IsZero():
		seen.State, seen.Since = port.Leaving, r.Leaving
		return seen
	case down:
		seen.State, seen.Since, seen.Message = port.Lost, since.UTC(), fmt.Sprintf("node %s does not answer", r.Node)
		return seen
	}
	answers := probe(ctx, r)
	lives := s.agent(r).Running()
	switch {
	case !r.Suspend.IsZero() && (lives || postgres.EngineOf(r.folder).Running()):
		seen.State, seen.Message = port.Down, "its processes are being ended"
	case !r.Suspend.IsZero():
		seen.State, seen.Address = port.Suspended, ""
	case answers:
		seen.State = port.Up
	case lives && time.Since(r.Launched) < agentTimeout:
		seen.State = port.Pending
	case lives:
		seen.State, seen.Message = port.Down, "its agent does not answer"
	default:
		seen.State, seen.Message = port.Down, "its agent does not run: "+postgres.LogTail(filepath.Join(r.folder, "agent.log"))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.seen[r.folder]
	if last.state != seen.State {
		last = seenState{seen.State, time.Now().UTC()}
		s.seen[r.folder] = last
	}
	seen.Since = last.since
	return seen
}

// probe reports whether the agent answers for this instance.
func probe(ctx context.Context, r *instanceRecord) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+join(r.Address, r.Agent)+"/healthz", http.NoBody)
	if err != nil {
		return false
	}
	response, err := prober.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	var who struct{ Name string }
	return json.NewDecoder(io.LimitReader(response.Body, 1<<10)).Decode(&who) == nil && who.Name == r.Name
}

var prober = &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
