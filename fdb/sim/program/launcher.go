package program

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/fdb"
)

// launcher is a running fdb-kubernetes-monitor in its mode launcher.
type launcher struct {
	p                *Process
	flags            launcherFlags
	configFile       string
	containerVersion fdb.Version
	variables        map[string]string // of the additional environment file
	pod              *ownPod
	log              *launcherLog
	gone             sync.WaitGroup

	mu       sync.Mutex
	config   *launcherConfig
	raw      []byte
	loaded   time.Time
	count    int                 // of processes; 0 once it ends
	loops    map[int]bool        // which have a loop
	running  map[int]*os.Process // which run
	stopping chan struct{}
}

// dataClusterFile is the cluster file that the launcher watches (fdbkubernetesmonitor/monitor.go, fdbClusterFilePath).
const dataClusterFile = "/var/fdb/data/fdb.cluster"

// longestBackoff is the longest time between two starts of a server that fails.
const longestBackoff = 60 * time.Second

// launch runs servers as config.json says. Source: fdbkubernetesmonitor/monitor.go at 7.1.67, 7.3.69 and 7.4.6. Its
// metrics are not played.
func (p *Process) launch(ctx context.Context, flags launcherFlags, version fdb.Version, log *launcherLog) int {
	l := &launcher{
		p: p, flags: flags, configFile: p.path(path.Join(flags.inputDir, flags.conf)), containerVersion: version, log: log,
		count: flags.processCount, loops: map[int]bool{}, running: map[int]*os.Process{}, stopping: make(chan struct{}),
	}
	var err error
	if l.variables, err = p.additionalEnvironment(flags.additionalEnv); err != nil {
		log.fail(err, "Error loading additional environment")
		return exitError
	}
	ctx, cancel := context.WithCancel(ctx)
	defer l.gone.Wait()
	defer cancel()
	if l.pod, err = p.openPod(ctx, &l.gone, flags.nodeWatch); err != nil {
		log.fail(err, "could not create Pod client")
		return exitError
	}
	signals, stop := p.signals(syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	cluster := p.path(dataClusterFile)
	changed := watch(ctx, l.configFile, cluster)
	seeded := exists(cluster)
	l.load(ctx)
	for {
		select {
		case <-ctx.Done():
			l.end(syscall.SIGTERM)
			return exitSuccess
		case s := <-signals:
			log.info("Received system signal", "signal", s.String())
			n, _ := s.(syscall.Signal)
			l.end(n)
			if delay, err := time.ParseDuration(l.pod.annotation(annotationDelay)); err == nil {
				pause(ctx, delay)
			}
			return exitSuccess
		case file := <-changed:
			log.info("Detected event on monitor conf file or cluster file", "event", file)
			switch {
			case file != cluster:
				l.load(ctx)
			case !seeded:
				seeded = true // it waits until the file is there, and hears of what comes then
			default:
				if err := l.pod.annotate(ctx, map[string]string{annotationClusterFile: strconv.FormatInt(time.Now().Unix(), 10)}); err != nil {
					log.fail(err, "could not update "+annotationClusterFile+" annotation")
				}
			}
		case at := <-l.pod.wake:
			l.mu.Lock()
			news := at >= l.loaded.Unix() // the real one misses what comes within the same second
			l.mu.Unlock()
			if news {
				l.load(ctx)
			}
		}
	}
}

// additionalEnvironment reads lines such as export NAME=value.
func (p *Process) additionalEnvironment(file string) (map[string]string, error) {
	variables := map[string]string{}
	if file == "" {
		return variables, nil
	}
	content, err := os.ReadFile(p.path(file))
	if err != nil {
		return nil, err
	}
	form := regexp.MustCompile(`export ([A-Za-z0-9_]+)=([^\n]*)`)
	for line := range strings.Lines(string(content)) {
		if found := form.FindStringSubmatch(line); found != nil {
			variables[found[1]] = found[2]
		}
	}
	return variables, nil
}

// lookup knows the variables: those of the additional file, the labels of the node, the environment.
func (l *launcher) lookup(name string) (string, bool) {
	if value, there := l.pod.nodeVariable(name); there {
		return value, true
	}
	if value, there := l.variables[name]; there {
		return value, true
	}
	return l.p.lookup(name)
}

// load reads the configuration and acts on it; one that is refused changes nothing.
func (l *launcher) load(ctx context.Context) {
	c, raw := l.readConfig()
	if c == nil {
		return
	}
	l.accept(ctx, c, raw)
	l.mu.Lock()
	environment := map[string]string{"BINARY_DIR": path.Dir(l.config.binary)}
	for _, a := range l.config.Arguments {
		a.sources(l.lookup, environment)
	}
	annotations := map[string]string{annotationConfiguration: string(l.raw)}
	l.mu.Unlock()
	text, err := json.Marshal(environment)
	if err == nil {
		annotations[annotationEnvironment] = string(text)
		err = l.pod.annotate(ctx, annotations)
	}
	if err != nil {
		l.log.fail(err, "Error updating pod annotations")
	}
}

// accept makes a configuration the active one: servers that run get it at their next start, unless they are stopped.
func (l *launcher) accept(ctx context.Context, c *launcherConfig, raw []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.config != nil && l.config.binary == c.binary && slices.Equal(l.raw, raw) && l.config.runs() == c.runs() {
		return
	}
	l.log.info("Received new configuration file", "configuration", string(raw))
	l.config, l.raw, l.loaded = c, raw, time.Now()
	for n := 1; n <= l.count; n++ {
		if !l.loops[n] {
			l.loops[n] = true
			l.gone.Go(func() { l.loop(ctx, n) })
		}
	}
	if !c.runs() {
		l.signal(syscall.SIGTERM)
	}
}

// signal sends a signal to all servers.
func (l *launcher) signal(s syscall.Signal) {
	for n, process := range l.running {
		l.log.info("Sending signal to subprocess", "processNumber", n, "PID", process.Pid, "signal", s.String())
		_ = process.Signal(s) // it may have ended
	}
}

// end ends all servers for good.
func (l *launcher) end(s syscall.Signal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.count > 0 {
		close(l.stopping)
	}
	l.count = 0
	l.signal(s)
}

// required tells whether the nth server shall run. If not, its loop ends.
func (l *launcher) required(n int) (*launcherConfig, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n > l.count || !l.config.runs() {
		delete(l.loops, n)
		return nil, false
	}
	return l.config, true
}

// loop starts the nth server again and again.
func (l *launcher) loop(ctx context.Context, n int) {
	failures := 0
	for started := time.Now(); ; {
		c, required := l.required(n)
		if !required || ctx.Err() != nil {
			return
		}
		if time.Since(started) > 5*time.Minute {
			failures = 0
		}
		argv, err := c.arguments(n, l.lookup)
		if err == nil {
			started = time.Now()
			var exit int
			if exit, err = l.server(n, argv); err == nil && exit == 0 {
				continue
			}
		}
		wait := min(time.Duration(failures*failures)*time.Second, longestBackoff)
		failures++
		l.log.info("Backing off from restarting subprocess", "processNumber", n, "backoffDuration", wait.String(), "errorCounter", failures)
		select {
		case <-ctx.Done():
		case <-l.stopping:
		case <-time.After(wait):
		}
	}
}

// server runs the nth server until it ends.
func (l *launcher) server(n int, argv []string) (exit int, err error) {
	l.log.info("Starting subprocess", "processNumber", n, "arguments", strings.Join(argv, " "))
	cmd := &exec.Cmd{Path: l.p.path(argv[0]), Args: argv, Env: l.p.Environ, SysProcAttr: dieWithParent()}
	out, err1 := cmd.StdoutPipe()
	errs, err2 := cmd.StderrPipe()
	l.mu.Lock()
	if n > l.count || !l.config.runs() {
		l.mu.Unlock()
		return 0, nil
	}
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		l.mu.Unlock()
		l.log.fail(err, "Error starting subprocess")
		return 0, err
	}
	l.running[n] = cmd.Process
	l.mu.Unlock()
	pid := cmd.Process.Pid
	l.log.info("Subprocess started", "processNumber", n, "PID", pid)
	var lines sync.WaitGroup
	lines.Go(func() { l.copyLog("Subprocess output", pid, out) })
	lines.Go(func() { l.copyLog("Subprocess error log", pid, errs) })
	lines.Wait()
	_ = cmd.Wait() // its state says how it ended
	l.mu.Lock()
	delete(l.running, n)
	l.mu.Unlock()
	exit = cmd.ProcessState.ExitCode()
	l.log.info("Subprocess terminated", "processNumber", n, "PID", pid, "exitCode", exit)
	return exit, nil
}

func (l *launcher) copyLog(message string, pid int, from io.Reader) {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		l.log.info(message, "msg", lines.Text(), "PID", pid)
	}
}
