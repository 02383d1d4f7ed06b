package controlplane

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/pawl-dev/pawl/fault"
)

// Errors of a plane that cannot start.
var (
	BinariesMissing = fault.Declare(fault.Kind{
		Code: "CONTROL_PLANE_BINARIES_MISSING", Class: fault.Invalid,
		Title:  "the programs of the Kubernetes control plane are not there",
		Remedy: "Run `make controlplane`: it builds them into bin/, the first time in some 14 minutes of CPU time.",
	})
	PlaneDead = fault.Declare(fault.Kind{
		Code: "CONTROL_PLANE_ENDED", Class: fault.Blocked,
		Title:  "a program of the Kubernetes control plane has ended by itself",
		Remedy: "Read the end of its log in the message, then restart the plane.",
	})
	SlotsTaken = fault.Declare(fault.Kind{
		Code: "CONTROL_PLANE_SLOTS_TAKEN", Class: fault.Blocked,
		Title:  "too many control planes run on this machine",
		Remedy: "Wait until other tests are done, or end those that hang.",
	})
)

// Binaries are the paths of the programs of a control plane.
type Binaries struct {
	Etcd, APIServer, ControllerManager, Scheduler, Kubectl string
}

// Find returns the programs in a folder; "" is bin/ of this repository. BinariesMissing if
// one does not exist.
func Find(dir string) (Binaries, error) {
	if dir == "" {
		root, err := Root()
		if err != nil {
			return Binaries{}, err
		}
		dir = filepath.Join(root, "bin")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Binaries{}, err
	}
	var missing []string
	path := func(name string) string {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			missing = append(missing, name)
		}
		return path
	}
	b := Binaries{
		Etcd:              path("etcd"),
		APIServer:         path("kube-apiserver"),
		ControllerManager: path("kube-controller-manager"),
		Scheduler:         path("kube-scheduler"),
		Kubectl:           path("kubectl"),
	}
	if len(missing) > 0 {
		return Binaries{}, BinariesMissing.Errorf("%s: not in %s; run `make controlplane`", strings.Join(missing, ", "), dir)
	}
	return b, nil
}

// provide finds the programs, and builds those of the repository if they are missing,
// unless the variable is "skip". Only one of several processes builds.
func provide(ctx context.Context, dir string) (Binaries, error) {
	b, err := Find(dir)
	if fault.Of(err) != BinariesMissing || dir != "" || os.Getenv(Variable) == "skip" {
		return b, err
	}
	root, err := Root()
	if err != nil {
		return Binaries{}, err
	}
	if err := os.MkdirAll(filepath.Join(root, "bin"), 0o755); err != nil {
		return Binaries{}, err
	}
	lock, err := os.Create(filepath.Join(root, "bin", ".controlplane.lock"))
	if err != nil {
		return Binaries{}, err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return Binaries{}, err
	}
	cmd := exec.CommandContext(ctx, "make", "-C", root, "controlplane")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return Binaries{}, BinariesMissing.Errorf("make controlplane: %w", err)
	}
	return Find(dir)
}

// Root returns the folder of the repository: where the Makefile is.
func Root() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return "", errors.New("the repository cannot be found: this program was built without file names")
	}
	root := filepath.Dir(filepath.Dir(filepath.Dir(file)))
	if _, err := os.Stat(filepath.Join(root, "Makefile")); err != nil {
		return "", errors.New("the repository is not at " + root + " (was this program built with -trimpath?)")
	}
	return root, nil
}
