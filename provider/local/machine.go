package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/provider/local/internal/disk"
	"github.com/pawl-dev/pawl/provider/local/internal/host"
	"github.com/pawl-dev/pawl/provider/local/node"
)

// Files that the provider writes when it starts or stops a VM.
const (
	launchFile = "launch.json" // the newest start
	haltFile   = "halt.json"   // the newest stop
)

// mark records a start or a stop of a process.
type mark struct {
	At      time.Time    `json:"at"`
	Process host.Process `json:"process"`
}

// The states of a VM.
const (
	running  = "Running"
	starting = "Starting"
	stopping = "Stopping"
	stopped  = "Stopped"
	silent   = "Silent" // the process runs but does not answer with its identity
	unread   = "Unreadable"
)

var powers = map[string]cluster.Power{
	running: cluster.PoweredOn, starting: cluster.PoweringOn, stopping: cluster.PoweringOff, stopped: cluster.PoweredOff,
	silent: cluster.UnknownPower, unread: cluster.PowerBroken,
}

// defaultProbeTimeout is the timeout of a health request.
const defaultProbeTimeout = 2 * time.Second

// observation is the observed state of a VM.
type observation struct {
	state   string
	process host.Process // the VM's proven process; zero: none
}

// An ending process may answer one last time after it is no longer found. If a process is
// not found, observe therefore tries again observeRetries times, with observePause
// between.
const (
	observeRetries = 5
	observePause   = 40 * time.Millisecond
)

// observe returns the state of a VM. It fails only if the context ends.
func (p *Provider) observe(ctx context.Context, r *record) (observation, error) {
	for try := 0; ; try++ {
		s, err := p.observeOnce(ctx, r)
		if err != nil || s.state != running || s.process != (host.Process{}) || try == observeRetries {
			return s, err
		}
		select {
		case <-ctx.Done():
			return observation{}, ctx.Err()
		case <-time.After(observePause):
		}
	}
}

func (p *Provider) observeOnce(ctx context.Context, r *record) (observation, error) {
	if r.unreadable != "" {
		return observation{state: unread}, nil
	}
	health, err := p.probe(ctx, r)
	if err != nil {
		if ctx.Err() != nil {
			return observation{}, ctx.Err()
		}
		health = nil
	}
	process, alive := p.findProcess(r)
	if !alive && health != nil {
		switch by := host.Of(r.Identity, health.PID); {
		case !by.IsRunning(): // it has ended after its answer
			health = nil
		case by.HasArgument(p.data.filePath(r.ID)): // its file is lost or wrong, but the process is right
			process, alive = by, true
		}
	}
	return decideState(facts{
		alive: alive, process: process, healthy: health != nil, held: disk.Held(p.data.filePath(r.ID, node.LockFile)),
		launch: p.mark(r, launchFile), halt: p.mark(r, haltFile), now: p.options.Now(), grace: p.options.StartWithin,
	}), nil
}

// facts are the inputs of decideState.
type facts struct {
	alive, healthy bool
	held           bool // a process holds the lock of the node
	process        host.Process
	launch, halt   mark
	now            time.Time
	grace          time.Duration // for a process that does not yet answer
}

func decideState(f facts) observation {
	switch {
	case !f.alive && f.healthy:
		return observation{state: running} // it answers, but its process is not found
	case !f.alive && f.held:
		return observation{state: silent} // its files are lost, and it does not answer with its identity
	case !f.alive:
		return observation{state: stopped}
	case f.halt.Process.Same(f.process):
		return observation{stopping, f.process}
	case f.healthy:
		return observation{running, f.process}
	case f.launch.Process.Same(f.process) && f.now.Sub(f.launch.At) < f.grace:
		return observation{starting, f.process}
	}
	return observation{silent, f.process}
}

// findProcess finds the process of a VM: by the file that the process wrote, or by the
// marks of its start or stop.
func (p *Provider) findProcess(r *record) (host.Process, bool) {
	var written host.Process
	_ = disk.ReadJSON(p.data.filePath(r.ID, node.ProcessFile), &written) // missing or damaged: no process
	for _, process := range []host.Process{written, p.mark(r, launchFile).Process, p.mark(r, haltFile).Process} {
		if process.Identity == r.Identity && process.IsRunning() && process.HasArgument(p.data.filePath(r.ID)) {
			return process, true
		}
	}
	return host.Process{}, false
}

// mark reads a mark; the zero mark if there is none.
func (p *Provider) mark(r *record, file string) mark {
	var m mark
	if disk.ReadJSON(p.data.filePath(r.ID, file), &m) != nil {
		return mark{}
	}
	return m
}

// probe requests the health. It ignores an answer with another identity.
func (p *Provider) probe(ctx context.Context, r *record) (*node.Health, error) {
	ctx, cancel := context.WithTimeout(ctx, p.probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.Node.Health+"/healthz", http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := p.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var h node.Health
	if err := json.NewDecoder(io.LimitReader(response.Body, 64<<10)).Decode(&h); err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK || h.Identity != r.Identity {
		return nil, errors.New("another program answers")
	}
	return &h, nil
}

// launch starts the process of a VM, in a session of its own.
func (p *Provider) launch(r *record) error {
	dir := p.data.filePath(r.ID)
	log, err := os.OpenFile(filepath.Join(dir, node.LogFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return ioFault(err)
	}
	defer log.Close()
	cmd := exec.Command(p.options.Command[0], append(p.options.Command[1:len(p.options.Command):len(p.options.Command)], "--dir", dir)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, log, log
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "GOMAXPROCS=" + strconv.Itoa(max(r.Cores, 1)), "GOMEMLIMIT=" + strconv.Itoa(max(r.MemoryMB, 64)) + "MiB",
	}, p.options.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM) {
			return cluster.CapacityExhausted.Errorf("%s: the machine cannot start a process: %w", r.Name, err)
		}
		return cluster.ProviderRefused.Errorf("%s: the node program does not start: %w", r.Name, err)
	}
	pid := cmd.Process.Pid
	p.addChild(pid)
	m := mark{At: p.options.Now(), Process: host.Of(r.Identity, pid)}
	_ = cmd.Process.Release() // reapChildren waits for it by id
	if err := disk.WriteJSON(filepath.Join(dir, launchFile), m); err != nil {
		return ioFault(err) // the process also writes its own file
	}
	return nil
}

// halt ends the proven process of a VM: SIGTERM once, and SIGKILL for its process group if
// force returns true. It leaves an unproven process alone.
func (p *Provider) halt(r *record, s observation, force func(since time.Duration) bool) error {
	if s.process == (host.Process{}) {
		if s.state == silent {
			return nil
		}
		return cluster.ProviderRefused.Errorf("%s: something answers as this VM, but its process cannot be found; nothing was killed", r.Name)
	}
	m := p.mark(r, haltFile)
	if !m.Process.Same(s.process) {
		m = mark{At: p.options.Now(), Process: s.process}
		if err := disk.WriteJSON(p.data.filePath(r.ID, haltFile), m); err != nil {
			return ioFault(err)
		}
		if err := s.process.Signal(syscall.SIGTERM, false); err != nil {
			return refusedSignal(r, err)
		}
	}
	if force(p.options.Now().Sub(m.At)) {
		return refusedSignal(r, s.process.Signal(syscall.SIGKILL, true))
	}
	return nil
}

func refusedSignal(r *record, err error) error {
	if err == nil {
		return nil
	}
	return cluster.CredentialsRefused.Errorf("%s: cannot signal the process: %w", r.Name, err)
}

// addChild registers a child for reapChildren.
func (p *Provider) addChild(pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.children[pid] = struct{}{}
}

// reapChildren waits for children that have ended, so that they do not stay zombies.
func (p *Provider) reapChildren() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pid := range p.children {
		switch got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil); {
		case errors.Is(err, syscall.EINTR):
		case err != nil || got == pid:
			delete(p.children, pid)
		}
	}
}

// logTail returns the last lines that the process wrote, to explain why it ended.
func (p *Provider) logTail(r *record) string {
	text, err := tail(p.data.filePath(r.ID, node.LogFile), 2)
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(text), "\n"), func(line string) bool {
		return strings.HasPrefix(strings.TrimSpace(line), "remedy:") // the remedy is for people who start nodes by hand
	})
	if err != nil || len(lines) == 0 || lines[len(lines)-1] == "" {
		return "it wrote nothing"
	}
	return fmt.Sprintf("its last output: %.300s", lines[len(lines)-1])
}
