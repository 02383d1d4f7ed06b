package program

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// monitorCommand is how fdbmonitor runs one section. Source: fdbmonitor/fdbmonitor.cpp at 7.1.67, 7.3.69 and 7.4.6,
// Command.
type monitorCommand struct {
	section                      string
	argv                         []string // empty: the section cannot be run
	initial, longest, resetAfter float64  // seconds
	backoff, current             float64
	quiet, kill                  bool
	deleteEnv                    []string
}

// ownKeys are read by fdbmonitor; all others become arguments.
var ownKeys = []string{
	"command", "restart-delay", "initial-restart-delay", "restart-backoff", "restart-delay-reset-interval",
	"disable-lifecycle-logging", "delete-envvars", "kill-on-configuration-change",
}

// command reads a section; problem is what fdbmonitor logs of one that cannot be run.
func (i ini) command(section string, numbered bool) (c monitorCommand, problem string) {
	c = monitorCommand{section: section, kill: true}
	dot := strings.LastIndex(section, ".")
	base, id := section[:dot], section[dot+1:]
	get := func(key string) (string, bool) { return i.get(key, section, base, "general") }
	seconds := func(key string, fallback float64, name string) (float64, bool) {
		text, there := i.get(key, section, base, "general", "fdbmonitor")
		if !there {
			return fallback, true
		}
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			problem = fmt.Sprintf("Unable to parse %s for %s", name, section)
			return 0, false
		}
		return float64(n), true
	}
	if _, there := i.get("restart-delay", section, base, "general", "fdbmonitor"); !there {
		return c, "Unable to resolve restart delay for " + section
	}
	var ok bool
	if c.longest, ok = seconds("restart-delay", 0, "restart delay"); !ok {
		return c, problem
	}
	if c.initial, ok = seconds("initial-restart-delay", 0, "initial restart delay"); !ok {
		return c, problem
	}
	c.initial = min(c.initial, c.longest)
	c.current = c.initial
	c.backoff = c.longest
	if text, there := i.get("restart-backoff", section, base, "general", "fdbmonitor"); there {
		n, err := strconv.ParseFloat(text, 64)
		switch {
		case err != nil:
			return c, "Unable to parse restart backoff for " + section
		case n < 1:
			return c, fmt.Sprintf("Invalid restart backoff value %f for %s", n, section)
		}
		c.backoff = n
	}
	if c.resetAfter, ok = seconds("restart-delay-reset-interval", c.longest, "restart delay reset interval"); !ok {
		return c, problem
	}
	quiet, _ := get("disable-lifecycle-logging")
	c.quiet = quiet == "true"
	if text, there := get("kill-on-configuration-change"); there && text != "true" {
		c.kill = false
	}
	if text, there := get("delete-envvars"); there {
		c.deleteEnv = strings.Fields(text)
	}
	binary, there := get("command")
	if !there {
		return c, "Unable to resolve command for " + section
	}
	argv := strings.Fields(binary)
	for _, key := range i.keys(section, base, "general") {
		if slices.Contains(ownKeys, strings.ReplaceAll(key, "_", "-")) {
			continue
		}
		value, _ := get(key)
		value = strings.ReplaceAll(value, "$ID", id)
		if numbered {
			value = strings.ReplaceAll(value, "$PID", strconv.Itoa(os.Getpid()))
		}
		flag, is := strings.CutPrefix(strings.Replace(key, "flag-", "flag_", 1), "flag_")
		switch {
		case !is || flag == "":
			argv = append(argv, "--"+key+"="+value)
		case value == "true":
			argv = append(argv, "--"+flag)
		case value != "false":
			return c, fmt.Sprintf("Bad flag value, must be true/false.  Flag: '%s'  Value: '%s'", flag, value)
		}
	}
	c.argv = argv
	return c, ""
}

// delay returns how long the next start waits, and makes the one after it wait longer. ran: since its last start.
func (c *monitorCommand) delay(ran time.Duration) time.Duration {
	if ran.Seconds() >= c.resetAfter {
		c.current = c.initial
	}
	low, high := int(math.Floor(-0.1*c.current)), int(math.Ceil(0.1*c.current))
	jitter := low + rand.IntN(high-low+1) //nolint:gosec // no secret depends on it
	wait := max(0, int(math.Round(c.current))+jitter)
	c.current = min(c.longest, c.backoff*max(1, c.current))
	return time.Duration(wait) * time.Second
}

// update takes over what counts for later starts.
func (c *monitorCommand) update(other monitorCommand) {
	current := c.current
	argv := c.argv
	*c = other
	c.argv = argv
	c.current = max(c.initial, min(c.longest, current))
}
