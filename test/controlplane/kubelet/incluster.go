package kubelet

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// bindMount shows a file or folder of this machine to a container at a fixed path.
type bindMount struct{ from, to string }

// CanMount returns why this process cannot give containers files at fixed paths (Options.InCluster
// and Options.DNS): it needs root, mount namespaces and the programs of util-linux.
func CanMount() error {
	folder, err := os.MkdirTemp("", "account")
	if err != nil {
		return err
	}
	defer os.Remove(folder)
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{}}
	if err := withMounts(cmd, []bindMount{{folder, accountPath}}); err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("a mount namespace: %w: %s", err, out)
	}
	return nil
}

// withMounts changes a command so that it sees files of this machine at other paths, in a mount
// namespace of its own. A shell mounts them and becomes the command, as its user.
// A thread of this process in that namespace would do without a shell, but it would have to end,
// and the processes that it has started before end with it (Pdeathsig).
func withMounts(cmd *exec.Cmd, mounts []bindMount) error {
	if _, err := os.Stat(cmd.Path); err != nil {
		return err
	}
	program, err1 := find("mount", systemPath)
	setpriv, err2 := find("setpriv", systemPath)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	script := `mount=$0; while test "$1" != --; do "$mount" --bind "$1" "$2" || exit; shift 2; done; shift; exec "$@"`
	argv := []string{"sh", "-c", script, program}
	for _, m := range mounts {
		if m.to == accountPath { // an empty folder of the machine is the mount point; it stays
			if err := os.MkdirAll(accountPath, 0o755); err != nil {
				return fmt.Errorf("the mount point of service accounts: %w", err)
			}
		}
		argv = append(argv, m.from, m.to)
	}
	argv = append(argv, "--", setpriv, "--pdeathsig=KILL")
	if cred := cmd.SysProcAttr.Credential; cred != nil {
		argv = append(argv, fmt.Sprintf("--reuid=%d", cred.Uid), fmt.Sprintf("--regid=%d", cred.Gid))
		groups := make([]string, len(cred.Groups))
		for i, group := range cred.Groups {
			groups[i] = strconv.Itoa(int(group))
		}
		if len(groups) > 0 {
			argv = append(argv, "--groups="+strings.Join(groups, ","))
		} else {
			argv = append(argv, "--clear-groups")
		}
	}
	cmd.Args = append(append(argv, "--", cmd.Path), cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	cmd.SysProcAttr.Credential = nil
	cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	return nil
}
