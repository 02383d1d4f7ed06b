package action

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/workflow"
)

// execGuard is a small shell script between the start of the process and the command, because the
// machine or the container may be suspended in between. The script reads the time since boot and
// replaces itself by the command only if the worker's lease is still valid.
type execGuard struct {
	script string // source for the shell; ends where the command begins
	marker string // text on standard error if it refuses
}

const (
	uptime        = "/proc/uptime" // the boot-time clock, in hundredths of a second
	binSh         = "/bin/sh"
	guardExitCode = 75 // exit code of a guard that refuses; valid only together with the marker
)

// newExecGuard returns the guard of an attempt; nil without a lease, such a clock or a shell.
func newExecGuard(t *workflow.Task) (*execGuard, error) {
	left, leased := t.Lease()
	if !leased {
		return nil, nil
	}
	if left <= 0 {
		return nil, workflow.ErrLeaseLost
	}
	data, err := os.ReadFile(uptime)
	if err != nil {
		return nil, nil //nolint:nilerr // no such clock here
	}
	now, ok := hundredths(string(data))
	if _, err := os.Stat(binSh); !ok || err != nil {
		return nil, nil //nolint:nilerr // no shell here
	}
	random := make([]byte, 12)
	_, _ = rand.Read(random) // never fails
	g := &execGuard{marker: "pawl: the lease does not hold any more " + hex.EncodeToString(random)}
	// Without its point, the clock is in hundredths. If it cannot be read, the guard does not
	// refuse.
	g.script = fmt.Sprintf(`if read -r PAWL_UP PAWL_IDLE <%s && [ "${PAWL_UP%%.*}${PAWL_UP#*.}" -ge %d ]; then echo '%s' >&2; exit %d; fi; unset PAWL_UP PAWL_IDLE; `,
		uptime, now+int64(left/(10*time.Millisecond)), g.marker, guardExitCode)
	return g, nil
}

// hundredths reads /proc/uptime.
func hundredths(text string) (int64, bool) {
	first, _, _ := strings.Cut(text, " ")
	whole, part, _ := strings.Cut(first, ".")
	n, err := strconv.ParseInt(whole+part, 10, 64)
	return n, err == nil && len(part) == 2
}

// around puts the guard before a command. It omits the guard if the kernel may refuse to execute
// the file, so that the error is visible.
func (g *execGuard) around(c command) command {
	switch {
	case g == nil:
	case c.script != "":
		c.argv = append(append([]string{}, c.argv[:len(c.argv)-1]...), g.script+c.script)
	case executable(c.path) && !strings.HasPrefix(c.argv[0], "-"): // a shell would interpret it as an option
		c.argv = append([]string{"sh", "-c", g.script + unset(c.env) + `exec "$@"`, "sh"}, c.argv...)
		c.path = binSh
	}
	return c
}

// unset removes the variables that a shell adds to the environment.
func unset(env []string) (script string) {
	for _, name := range []string{"PWD", "OLDPWD", "SHLVL"} {
		if !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") }) {
			script += "unset " + name + "; "
		}
	}
	return script
}

// refused reports whether the guard refused the command because the lease had expired.
func (g *execGuard) refused(got exitState) bool {
	return g != nil && got.exit == guardExitCode && bytes.Contains(got.stderr.head, []byte(g.marker))
}

// executable reports whether a program, or the interpreter of a script, exists.
func executable(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false // the file may be executable but not readable
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := f.Read(head)
	head = head[:n]
	if bytes.HasPrefix(head, []byte("\x7fELF")) {
		return true
	}
	line, isScript := bytes.CutPrefix(head, []byte("#!"))
	if !isScript {
		return false
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	fields := strings.Fields(string(line))
	if len(fields) == 0 {
		return false
	}
	info, err := os.Stat(fields[0])
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}
