package sim

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"time"

	"github.com/pawl-dev/pawl/fdb"
	fdbsim "github.com/pawl-dev/pawl/fdb/sim"
)

// execKill is when a tool that somebody runs in a pod is ended from outside, so that the world goes on.
const execKill = 2 * time.Minute

// Exec runs fdbcli, fdbbackup or fdbrestore in a container of a pod, as somebody with a shell there does: with the
// version of the container, and with the cluster file of the pod's first server. The exit code of another program is
// 127. It fails if the container does not run.
func (w *World) Exec(namespace, pod, in string, command []string) (fdbsim.Answer, error) {
	p := w.pod(namespace, pod)
	if p == nil || p.ended || p.lost() {
		return fdbsim.Answer{}, fmt.Errorf("pod %s/%s does not run", namespace, pod)
	}
	at := slices.IndexFunc(p.containers, func(c *container) bool { return c.name == in && c.running })
	if at < 0 || len(command) == 0 {
		return fdbsim.Answer{}, fmt.Errorf("container %q of pod %s/%s does not run", in, namespace, pod)
	}
	run := fdbsim.Run{Tool: fdb.Tool(path.Base(command[0])), Argv: command[1:], Version: p.containers[at].version, Kill: execKill}
	if !slices.Contains([]fdb.Tool{fdb.ToolCLI, fdb.ToolBackup, fdb.ToolRestore}, run.Tool) {
		return fdbsim.Answer{Exit: 127, Stderr: fmt.Sprintf("exec: %q: a simulated pod has fdbcli, fdbbackup and fdbrestore only\n", command[0])}, nil
	}
	if servers := slices.Sorted(maps.Keys(p.servers)); len(servers) > 0 {
		run.Connection = w.database.ClusterFile(p.servers[servers[0]].folder)
	}
	return w.database.Run(run), nil
}
