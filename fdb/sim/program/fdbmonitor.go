package program

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// monitorOptions are the options of fdbmonitor.
const monitorOptions = "--conffile= --lockfile= --loggroup= --daemonize -?|-h|--help"

// monitor is a running fdbmonitor.
type monitor struct {
	p        *Process
	conf     string
	logGroup string
	children map[string]*child // by section
	ended    chan *child       // those whose process has ended
	due      chan *child       // those whose delay is over
	logs     sync.Mutex
	gone     sync.WaitGroup
	cancel   context.CancelFunc
	ctx      context.Context // that of all children
}

// child is one section with its process.
type child struct {
	command     monitorCommand
	deconfigure bool // it is not started again
	again       bool // it is started again at once when it has ended
	cmd         *exec.Cmd
	starts      time.Time
	waiting     bool // for its delay
	state       *os.ProcessState
}

// The severities of its log lines.
const (
	severityInfo  = 10
	severityWarn  = 20
	severityError = 40
)

// fdbmonitor starts what its configuration names, and starts it again when it ends. Source:
// fdbmonitor/fdbmonitor.cpp at 7.1.67, 7.3.69 and 7.4.6; what it says there of users, memory and syslog is not played.
func (p *Process) fdbmonitor(ctx context.Context) int {
	m := &monitor{p: p, conf: "/etc/foundationdb/foundationdb.conf", logGroup: "default", children: map[string]*child{}, ended: make(chan *child), due: make(chan *child)}
	lockFile := "/var/run/fdbmonitor.pid"
	a := arguments{table: options(monitorOptions), rest: p.Args[1:]}
	for {
		g, wrong, more := a.next()
		if !more {
			break
		}
		if wrong != noMistake {
			continue // it does not look at what it does not know
		}
		switch g.id {
		case "--conffile":
			m.conf = g.value
		case "--lockfile":
			lockFile = g.value
		case "--loggroup":
			if strings.Contains(g.value, `"`) {
				m.log(severityError, "fdbmonitor", "Invalid log group '%s', cannot contain '\"'", g.value)
				return exitError
			}
			m.logGroup = g.value
		case "-?":
			p.help("fdbmonitor")
			return exitSuccess
		}
	}
	m.log(severityInfo, "fdbmonitor", "Started FoundationDB Process Monitor %s (v%s)", p.Version.Short(), p.Version)
	m.conf = p.path(m.conf)
	if !exists(m.conf) {
		m.log(severityError, "fdbmonitor", "No configuration file at %s", m.conf)
		return exitError
	}
	lock, exit := m.lock(p.path(lockFile))
	if lock == nil {
		return exit
	}
	defer os.Remove(lock.Name())
	defer lock.Close()
	m.ctx, m.cancel = context.WithCancel(ctx)
	defer m.gone.Wait()
	defer m.cancel()
	return m.work()
}

// lock makes sure that no other fdbmonitor has the lock file.
func (m *monitor) lock(path string) (*os.File, int) {
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o640)
	}
	if err != nil {
		m.log(severityError, "fdbmonitor", "Unable to open fdbmonitor lockfile %s (open error: %v)", path, err)
		return nil, exitError
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		m.log(severityError, "fdbmonitor", "Unable to lock fdbmonitor lockfile %s (is fdbmonitor already running?)", path)
		f.Close()
		return nil, exitSuccess
	}
	if _, err := f.WriteString(strconv.Itoa(os.Getpid()) + "\n"); err != nil {
		m.log(severityError, "fdbmonitor", "Unable to write fdbmonitor lockfile %s: %v", path, err)
	}
	return f, 0
}

// work runs until it is told to end.
func (m *monitor) work() int {
	signals, stop := m.p.signals(syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	changed := watch(m.ctx, m.conf)
	m.load()
	for {
		select {
		case <-m.ctx.Done():
			m.shutDown(syscall.SIGTERM)
			return exitSuccess
		case s := <-signals:
			n, _ := s.(syscall.Signal)
			if n == syscall.SIGHUP {
				m.log(severityInfo, "fdbmonitor", "Received signal %d (%s), resetting timeouts and reloading configuration", n, hangup)
				for _, c := range m.children {
					c.command.current = c.command.initial
				}
				m.load()
				continue
			}
			m.log(severityWarn, "fdbmonitor", "Received signal %d (%s), shutting down", n, map[bool]string{true: "Terminated", false: "Interrupt"}[n == syscall.SIGTERM])
			m.shutDown(syscall.SIGTERM)
			return exitSuccess
		case <-changed:
			m.load()
		case c := <-m.due:
			c.waiting = false
			if !c.deconfigure && m.children[c.command.section] == c {
				m.launch(c)
			}
		case c := <-m.ended:
			m.exited(c)
		}
	}
}

const hangup = "Hangup"

// shutDown ends all children and waits for them.
func (m *monitor) shutDown(with syscall.Signal) {
	running := 0
	for _, c := range m.children {
		if c.cmd != nil {
			running++
			m.log(severityInfo, "fdbmonitor", "Killing process %d", c.cmd.Process.Pid)
			_ = c.cmd.Process.Signal(with) // it may have ended
		}
	}
	for running > 0 {
		<-m.ended
		running--
	}
}

// load reads the configuration and does what has changed.
func (m *monitor) load() {
	m.log(severityInfo, "fdbmonitor", "Loading configuration %s", m.conf)
	file, err := readIni(m.conf)
	if err != nil {
		m.log(severityError, "fdbmonitor", "Unable to load configuration file %s (SI_Error: -3, errno: 2)", m.conf)
	}
	for section, c := range m.children {
		if _, there := file.sections[section]; !there {
			m.log(severityInfo, "fdbmonitor", "Deconfigured %s", section)
			c.deconfigure = true
			if c.command.kill {
				m.end(c)
			}
			if c.cmd == nil {
				delete(m.children, section)
			}
			continue
		}
		m.reload(file, c)
	}
	for _, section := range file.servers() {
		if m.children[section] != nil {
			continue
		}
		command, problem := file.command(section, m.p.Version.Short() != "7.1")
		if problem != "" {
			m.log(severityError, "fdbmonitor", "%s", problem)
			continue
		}
		c := &child{command: command}
		m.children[section] = c
		m.log(severityInfo, "fdbmonitor", "Starting %s", section)
		m.launch(c)
	}
}

// reload takes over what the configuration says of a section that is there already.
func (m *monitor) reload(file ini, c *child) {
	section := c.command.section
	command, problem := file.command(section, m.p.Version.Short() != "7.1")
	if problem != "" {
		m.log(severityError, "fdbmonitor", "%s", problem)
	}
	c.deconfigure = false
	if slices.Equal(command.argv, c.command.argv) && (!command.kill || c.command.kill) {
		m.log(severityInfo, "fdbmonitor", "Updated configuration for %s", section)
		c.command.update(command)
		return
	}
	m.log(severityInfo, "fdbmonitor", "Found new configuration for %s", section)
	c.command = command
	if !command.kill {
		return
	}
	if c.cmd != nil {
		c.again = true
		m.end(c)
	}
}

func (m *monitor) end(c *child) {
	if c.cmd != nil {
		m.log(severityInfo, "fdbmonitor", "Killing process %d", c.cmd.Process.Pid)
		_ = c.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	}
}

// launch starts the process of a section.
func (m *monitor) launch(c *child) {
	if len(c.command.argv) == 0 || c.cmd != nil || c.waiting {
		return
	}
	section := c.command.section
	path := m.p.path(c.command.argv[0])
	cmd := &exec.Cmd{Path: path, Args: c.command.argv, Env: m.environment(section, c.command.deleteEnv), SysProcAttr: dieWithParent()}
	out, err1 := cmd.StdoutPipe()
	errs, err2 := cmd.StderrPipe()
	c.starts = time.Now()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		m.log(severityError, section, "Unable to launch %s for %s (%v)", c.command.argv[0], section, err)
		// The real one ends its fork with 0, which is started again.
		m.later(c, max(time.Second, c.command.delay(0)))
		return
	}
	c.cmd = cmd
	if !c.command.quiet {
		m.log(severityInfo, section, "Launching %s (%d) for %s", c.command.argv[0], cmd.Process.Pid, section)
	}
	m.gone.Go(func() {
		var lines sync.WaitGroup
		lines.Go(func() { m.copyLog(severityInfo, section, out) })
		lines.Go(func() { m.copyLog(severityError, section, errs) })
		lines.Wait()
		_ = cmd.Wait() // its state says how it ended
		c.state = cmd.ProcessState
		m.ended <- c
	})
}

// environment is that of this process without some variables.
func (m *monitor) environment(section string, without []string) []string {
	var left []string
	for _, v := range m.p.Environ {
		name, _, _ := strings.Cut(v, "=")
		if !slices.Contains(without, name) {
			left = append(left, v)
		}
	}
	for _, name := range without {
		m.log(severityInfo, section, "Deleting parent environment variable: '%s'", name)
	}
	return left
}

// exited starts a section again whose process has ended. From 7.3 on it does so at once when the code is 0, as after
// kill.
func (m *monitor) exited(c *child) {
	pid := c.cmd.Process.Pid
	c.cmd = nil
	section := c.command.section
	if c.deconfigure {
		delete(m.children, section)
		return
	}
	if c.again {
		c.again = false
		m.launch(c)
		return
	}
	wait := c.command.delay(time.Since(c.starts))
	status, _ := c.state.Sys().(syscall.WaitStatus)
	code := c.state.ExitCode()
	if code == 0 && m.p.Version.Short() != "7.1" {
		wait = 0
	}
	seconds := int(wait / time.Second)
	switch {
	case c.command.quiet:
	case status.Signaled():
		m.log(severityWarn, section, "Process %d terminated by signal %d, restarting in %d seconds", pid, status.Signal(), seconds)
	case code == 0:
		m.log(severityWarn, section, "Process %d exited %d, restarting in %d seconds", pid, code, seconds)
	default:
		m.log(severityError, section, "Process %d exited %d, restarting in %d seconds", pid, code, seconds)
	}
	m.later(c, wait)
}

// later starts a section after some time.
func (m *monitor) later(c *child, wait time.Duration) {
	c.waiting = true
	m.gone.Go(func() {
		pause(m.ctx, wait)
		select {
		case m.due <- c:
		case <-m.ctx.Done():
		}
	})
}

func (m *monitor) copyLog(severity int, section string, from io.Reader) {
	lines := bufio.NewScanner(from)
	for lines.Scan() {
		m.log(severity, section, "%s", lines.Text())
	}
}

// log prints a line as fdbmonitor does.
func (m *monitor) log(severity int, process, format string, args ...any) {
	m.logs.Lock()
	defer m.logs.Unlock()
	now := time.Now()
	m.p.errorf("Time=\"%d.%06d\" Severity=\"%d\" LogGroup=\"%s\" Process=\"%s\": ", now.Unix(), now.Nanosecond()/1000, severity, m.logGroup, process)
	m.p.errorf(format+"\n", args...)
}
