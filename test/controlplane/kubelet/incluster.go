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

// CanMount returns why this process cannot give containers a service account at its fixed path
// (Options.InCluster): it needs root, mount namespaces and the programs of util-linux.
func CanMount() error {
	folder, err := os.MkdirTemp("", "account")
	if err != nil {
		return err
	}
	defer os.Remove(folder)
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{}}
	if err := withAccount(cmd, folder); err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("a mount namespace: %w: %s", err, out)
	}
	return nil
}

// withAccount changes a command so that it sees the folder of a service account at accountPath,
// in a mount namespace of its own. A shell mounts it and becomes the command, as its user.
// A thread of this process in that namespace would do without a shell, but it would have to end,
// and the processes that it has started before end with it (Pdeathsig).
func withAccount(cmd *exec.Cmd, folder string) error {
	// An empty folder of the machine is the mount point; it stays.
	if err := os.MkdirAll(accountPath, 0o755); err != nil {
		return fmt.Errorf("the mount point of service accounts: %w", err)
	}
	if _, err := os.Stat(cmd.Path); err != nil {
		return err
	}
	mount, err1 := find("mount", systemPath)
	setpriv, err2 := find("setpriv", systemPath)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	script := `"$0" --bind "$1" "$2" && shift 2 && exec "$@"`
	argv := []string{"sh", "-c", script, mount, folder, accountPath, setpriv, "--pdeathsig=KILL"}
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
