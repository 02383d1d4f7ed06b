package sim

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/fdb"
)

// monitor is fdbmonitor. Source of what it does: foundationdb 7.3.69, fdbmonitor/fdbmonitor.cpp.
type monitor struct {
	c        *container
	sections map[int][]string // the command of each server, as it is started the next time
	wait     time.Duration    // its restart_delay
}

// reload reads fdbmonitor.conf: what is new is started, and what runs keeps its arguments until it ends, also if
// its section is gone, unless kill_on_configuration_change says otherwise.
func (m *monitor) reload() {
	spec := m.c.spec()
	if spec == nil || m.c.p.ended {
		return
	}
	line := strings.Join(append(slices.Clone(spec.Command), spec.Args...), " ")
	_, file, _ := strings.Cut(line, "--conffile")
	fields := strings.Fields(strings.TrimPrefix(file, "="))
	if len(fields) == 0 {
		return
	}
	text, there := m.c.p.read(spec, fields[0])
	if !there {
		return
	}
	conf := parseConf(text)
	before, sections, kill := m.sections, conf.commands, conf.kill
	m.sections, m.wait = sections, conf.wait
	for n := range before {
		if kill && !slices.Equal(before[n], sections[n]) && m.c.p.servers[n] != nil {
			m.c.p.stop(n)
		}
	}
	numbers := make([]int, 0, len(sections))
	for n := range sections {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	for _, n := range numbers {
		if m.c.p.servers[n] == nil {
			m.start(n)
		}
	}
}

// start starts a server with its section as it is now.
func (m *monitor) start(n int) {
	spec := m.c.spec()
	words, there := m.sections[n]
	if spec == nil || !there || m.c.p.ended || m.c.monitor != m {
		if s := m.c.p.servers[n]; s != nil && !there && m.c.monitor == m {
			m.c.p.stop(n) // it has ended, and nothing starts it again
		}
		return
	}
	version := m.c.version
	if folder := path.Dir(words[0]); folder != "/usr/bin" {
		v, err := fdb.ParseVersion(path.Base(folder))
		if _, there := m.c.p.read(spec, words[0]); err != nil || !there {
			m.c.p.w.after(10*m.c.p.w.options.Times.Restart, func() { m.start(n) })
			return
		}
		version = v
	}
	m.c.p.run(n, words, version, m.delay, func() { m.start(n) })
}

// delay is that of fdbmonitor with only a restart_delay: the first crash waits for nothing, one within the restart
// delay of its start waits for it.
func (m *monitor) delay(crashes int, ran time.Duration) (delay time.Duration, counted int) {
	if crashes == 0 || ran >= m.wait {
		return 0, 1
	}
	return m.wait, crashes + 1
}

// monitorOnly are the parameters that fdbmonitor keeps for itself.
var monitorOnly = []string{
	"command", "restart_delay", "initial_restart_delay", "restart_backoff", "restart_delay_reset_interval",
	"disable_lifecycle_logging", "delete_envvars", "kill_on_configuration_change",
}

// conf is what stands in fdbmonitor.conf.
type conf struct {
	commands map[int][]string
	kill     bool          // what runs is ended when its section changes
	wait     time.Duration // before the next start
}

// parseConf reads fdbmonitor.conf. The arguments of a server are in the order of their names, and what a section
// does not say stands in [fdbserver]. A file without a restart_delay starts nothing.
func parseConf(text string) conf {
	sections := map[string]map[string]string{}
	section := ""
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[' && strings.HasSuffix(line, "]"):
			section = line[1 : len(line)-1]
			if sections[section] == nil {
				sections[section] = map[string]string{}
			}
		default:
			key, value, found := strings.Cut(line, "=")
			if found && sections[section] != nil {
				sections[section][strings.TrimSpace(key)] = strings.TrimSpace(value)
			}
		}
	}
	kill, given := sections["general"]["kill_on_configuration_change"]
	c := conf{commands: map[int][]string{}, kill: !given || kill == "true"}
	seconds, err := strconv.Atoi(sections["general"]["restart_delay"])
	if err != nil {
		return c
	}
	c.wait = time.Duration(seconds) * time.Second
	for section, values := range sections {
		id, isServer := strings.CutPrefix(section, "fdbserver.")
		n, err := strconv.Atoi(id)
		if !isServer || err != nil {
			continue
		}
		merged := map[string]string{}
		for _, from := range []map[string]string{sections["fdbserver"], values} {
			for key, value := range from {
				merged[key] = value
			}
		}
		words := strings.Fields(merged["command"])
		if len(words) == 0 {
			continue
		}
		var keys []string
		for key := range merged {
			if !slices.Contains(monitorOnly, strings.ReplaceAll(key, "-", "_")) {
				keys = append(keys, key)
			}
		}
		slices.SortFunc(keys, func(a, b string) int { return strings.Compare(strings.ToLower(a), strings.ToLower(b)) })
		for _, key := range keys {
			words = append(words, "--"+key+"="+strings.ReplaceAll(merged[key], "$ID", id))
		}
		c.commands[n] = words
	}
	return c
}
