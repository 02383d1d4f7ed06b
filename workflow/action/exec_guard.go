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

// A guard stands between the start of a command's process and the command: the process may stand still in
// between for as long as its machine or its container does. A shell asks the kernel for the
// time since boot and replaces itself by the command only while the worker's lease holds.
type execGuard struct {
	script string // for the shell; ends where the command begins
	marker string // what it says on standard error when it refuses
}

const (
	uptime        = "/proc/uptime" // the boot-time clock, in hundredths of a second
	binSh         = "/bin/sh"
	guardExitCode = 75 // exit code of a guard that refuses; counts only with its word
)

// newExecGuard makes the guard of one attempt; nil where there is no lease, no such clock or no shell.
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
	// The digits of the clock without its point are hundredths. What cannot be read refuses nothing.
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

// around puts the guard before a command. A file that the kernel may refuse to execute is
// started without, so that its error is seen.
func (g *execGuard) around(c command) command {
	switch {
	case g == nil:
	case c.script != "":
		c.argv = append(append([]string{}, c.argv[:len(c.argv)-1]...), g.script+c.script)
	case executable(c.path) && !strings.HasPrefix(c.argv[0], "-"): // which a shell would take for an option
		c.argv = append([]string{"sh", "-c", g.script + unset(c.env) + `exec "$@"`, "sh"}, c.argv...)
		c.path = binSh
	}
	return c
}

// unset takes from the environment what a shell puts into it by itself.
func unset(env []string) (script string) {
	for _, name := range []string{"PWD", "OLDPWD", "SHLVL"} {
		if !slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name+"=") }) {
			script += "unset " + name + "; "
		}
	}
	return script
}

// refused reports a command that did not begin because the lease did not hold any more.
func (g *execGuard) refused(got exitState) bool {
	return g != nil && got.exit == guardExitCode && bytes.Contains(got.stderr.head, []byte(g.marker))
}

// executable reports a program or a script whose interpreter is there.
func executable(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false // it may be executed without being read
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
