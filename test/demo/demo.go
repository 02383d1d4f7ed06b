// Package demo runs the main use case on a real etcd cluster: the server, the
// machine and flows of examples/etcd, and the commands that a person would type. Its
// second part uses a container cluster on the same server.
//
//	d, err := demo.New(demo.Options{Root: root, Pawl: pawl, Etcd: etcd, Etcdctl: etcdctl, Out: os.Stdout})
//	defer d.Close()
//	for _, act := range d.AllActs() {
//		err = act.Play(ctx)
//	}
//
// `make demo` shows it to people; the end-to-end test runs the same acts and checks
// with [Demo.Facts] that neither a key nor the quorum was lost.
package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/test/etcdproc"
)

// Options of a demo. All but Dir and Keep are required.
type Options struct {
	Root                string // of the repository
	Pawl, Etcd, Etcdctl string // binaries
	Dir                 string // the state folder; default: a temporary one, which Close removes
	Out                 io.Writer
	Keep                bool // leave the cluster and the server running
}

// Facts are the measurements of the demo.
type Facts struct {
	Acked, Lost   int           // keys that etcd acknowledged, and those of them that it lost
	Unanswered    int           // writes with unknown result
	LongestGap    time.Duration // between two acknowledged writes
	FewestReady   int           // minimum number of members that answered a read with quorum, during the rolling restart
	Worst         string        // the answer of each member at that minimum
	ReadyWhenHeld int           // the number while the rolling restart was paused
	Replaced      bool          // the killed member came back with a new id
	Undone        bool          // the cancelled learner was removed
	Histories     map[string][]Event
	Cluster       ClusterFacts
}

// Demo is a server with its own cluster.
type Demo struct {
	options  Options
	dir      string
	manifest string
	server   string // address
	base     int    // first port of the members
	process  *exec.Cmd
	killed   time.Time // time of the last kill of the server
	exited   chan struct{}
	writer   *etcdproc.Writer
	facts    Facts
	kept     bool
	failed   bool // the folder stays for inspection

	token     string // of the operator, once it exists
	clusterID string
}

const (
	basePort   = 23790 // of examples/etcd/cluster.yaml
	mostPorts  = 14    // seven members
	serverWait = 20 * time.Second
	dieWait    = 40 * time.Second // a server that drains takes up to 25 s
)

// New creates the state folder and starts the server.
func New(ctx context.Context, o Options) (*Demo, error) {
	var err error
	for _, path := range []*string{&o.Root, &o.Pawl, &o.Etcd, &o.Etcdctl} { // commands run in the state folder
		if *path, err = filepath.Abs(*path); err != nil {
			return nil, err
		}
	}
	d := &Demo{options: o, dir: o.Dir, facts: Facts{Histories: map[string][]Event{}}}
	if d.dir == "" {
		if d.dir, err = os.MkdirTemp("", "pawl-demo-"); err != nil {
			return nil, err
		}
	}
	d.manifest = filepath.Join(d.dir, "cluster.yaml")
	if err := errors.Join(d.findPorts(), d.copyManifest(), os.Symlink(filepath.Join(o.Root, "examples", "etcd"), filepath.Join(d.dir, "example"))); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	if err := d.startServer(ctx); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Facts returns the measurements so far.
func (d *Demo) Facts() Facts { return d.facts }

// findPorts uses the ports of the example, or others if one of them is in use.
func (d *Demo) findPorts() error {
	ports, err := etcdproc.FreePorts(1)
	if err != nil {
		return err
	}
	d.server = fmt.Sprintf("127.0.0.1:%d", ports[0])
	d.base = basePort
	for range 100 {
		if free(d.base, mostPorts) {
			return nil
		}
		d.base = 20000 + 2*rand.IntN(5000) // below the ephemeral range
	}
	return fmt.Errorf("no %d free ports in a row", mostPorts)
}

func free(first, count int) bool {
	for port := first; port < first+count; port++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return false
		}
		l.Close()
	}
	return true
}

func (d *Demo) copyManifest() error {
	data, err := os.ReadFile(filepath.Join(d.options.Root, "examples", "etcd", "cluster.yaml"))
	if err != nil {
		return err
	}
	text := strings.Replace(string(data), fmt.Sprint(basePort), fmt.Sprint(d.base), 1)
	return os.WriteFile(d.manifest, []byte(text), 0o644)
}

// startServer starts `pawl dev` in the state folder and waits until it is ready.
func (d *Demo) startServer(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(d.dir, "pawl.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"dev", "--dsn", "pawl.db", "--listen", d.server, "--machines", "example/machine.yaml", "--flows", "example/flows"}
	d.print("$ pawl %s &", strings.Join(args, " "))
	cmd := exec.Command(d.options.Pawl, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = d.dir, log, log, d.environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C ends the demo, which ends the server
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its log has the exit reason
		close(exited)
	}()
	d.process, d.exited = cmd, exited
	return d.until(ctx, serverWait, "the server is ready", func(ctx context.Context) (bool, error) {
		select {
		case <-exited:
			said, _ := os.ReadFile(log.Name())
			return false, fmt.Errorf("the server ended:\n%s", said)
		default:
			return responds(ctx, "http://"+d.server+"/readyz"), nil
		}
	})
}

// environment returns the demo's environment with etcd and etcdctl in the PATH.
func (d *Demo) environment() []string {
	path := filepath.Dir(d.options.Etcd) + string(filepath.ListSeparator) + filepath.Dir(d.options.Etcdctl) + string(filepath.ListSeparator) + os.Getenv("PATH")
	env := []string{"PATH=" + path, "ETCDCTL_ENDPOINTS=" + d.Client(1), "NO_COLOR=1", "PAWL_CONTEXTS=" + filepath.Join(d.dir, "contexts.yaml")}
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); name != "PATH" && !strings.HasPrefix(name, "PAWL_") && !strings.HasPrefix(name, "ETCDCTL_") {
			env = append(env, v)
		}
	}
	return env
}

// killServer kills the server with SIGKILL.
func (d *Demo) killServer() error {
	d.print("$ kill -9 %d   # pawl", d.process.Process.Pid)
	err := d.process.Process.Kill()
	<-d.exited
	d.killed = time.Now()
	return err
}

// Close stops the server and all members, and deletes the state folder, unless
// Options.Keep is set.
func (d *Demo) Close() error {
	if d.writer != nil {
		d.writer.Close()
	}
	if d.kept {
		return nil
	}
	var errs []error
	if d.process != nil {
		_ = d.process.Process.Signal(syscall.SIGTERM) // it may have ended
		select {
		case <-d.exited:
		case <-time.After(dieWait):
			errs = append(errs, errors.New("the server did not end at SIGTERM"), d.process.Process.Kill())
			<-d.exited
		}
	}
	scripts, _ := filepath.Glob(filepath.Join(d.dir, "etcd", "*", "*", "member")) // the pattern is valid
	for _, script := range scripts {
		if out, err := exec.Command(script, "stop", "-KILL").CombinedOutput(); err != nil {
			errs = append(errs, fmt.Errorf("%s stop: %w: %s", script, err, out))
		}
	}
	d.endVMs()
	if d.options.Dir == "" && !d.failed {
		errs = append(errs, os.RemoveAll(d.dir))
	}
	return errors.Join(errs...)
}

// Failed describes a failed act: the measurements, the state of the object, and the end of
// the server's log. The state folder stays; with Keep all processes stay too.
func (d *Demo) Failed(ctx context.Context, err error) {
	d.failed = true
	d.print("\n✖ %v", err)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if d.facts.Worst != "" {
		d.print("the fewest members were ready when they said:\n%s", d.facts.Worst)
	}
	for _, args := range [][]string{{"get", kind}, {"history", kind, name}} {
		if err := d.pawl(ctx, 0, args...); err != nil {
			d.print("%v", err)
		}
	}
	log := filepath.Join(d.dir, "pawl.log")
	if said, err := os.ReadFile(log); err == nil {
		lines := strings.Split(strings.TrimSpace(string(said)), "\n")
		d.print("\nthe end of %s:\n%s", log, strings.Join(lines[max(0, len(lines)-20):], "\n"))
	}
	d.print("\nEverything is in %s: pawl.log, pawl.db, and a log for each member below etcd.", d.dir)
	if d.options.Keep {
		_ = d.keep(ctx)
	}
}

// Client returns the client URL of member 1, 2, ….
func (d *Demo) Client(number int) string {
	return fmt.Sprintf("http://127.0.0.1:%d", d.base+2*number-2)
}

func (d *Demo) clients(count int) []string {
	var urls []string
	for number := range count {
		urls = append(urls, d.Client(number+1))
	}
	return urls
}

// once keeps no connections: members come and go.
var once = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// responds reports whether a GET returns status 200.
func responds(ctx context.Context, url string) bool { return getError(ctx, url, 2*time.Second) == "" }

// getError returns why a GET does not return status 200; empty: it does.
func getError(ctx context.Context, url string, patience time.Duration) string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err.Error()
	}
	response, err := once.Do(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusOK {
		return ""
	}
	said, _ := io.ReadAll(io.LimitReader(response.Body, 1000)) // the status is enough
	return response.Status + ": " + strings.TrimSpace(string(said))
}
