package etcdproc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
)

// Binaries are the paths of a real etcd server and its command line client.
type Binaries struct{ Etcd, Etcdctl string }

// Build returns the binaries of `make etcd`, and builds them if they are missing or older
// than test/kubebin/go.mod. Several test processes may call it at once.
func Build(ctx context.Context) (Binaries, error) {
	root, err := Root()
	if err != nil {
		return Binaries{}, err
	}
	bin := filepath.Join(root, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return Binaries{}, err
	}
	unlock, err := lockFile(filepath.Join(bin, ".etcd.lock"))
	if err != nil {
		return Binaries{}, err
	}
	defer unlock()
	if out, err := exec.CommandContext(ctx, "make", "-s", "-C", root, "etcd").CombinedOutput(); err != nil {
		return Binaries{}, fmt.Errorf("make etcd: %w\n%s", err, out)
	}
	return Binaries{Etcd: filepath.Join(bin, "etcd"), Etcdctl: filepath.Join(bin, "etcdctl")}, nil
}

// Root returns the folder of the repository: where the Makefile is.
func Root() (string, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return "", errors.New("the repository cannot be found: this program was built without file names")
	}
	root := filepath.Dir(filepath.Dir(filepath.Dir(file)))
	if _, err := os.Stat(filepath.Join(root, "Makefile")); err != nil {
		return "", fmt.Errorf("the repository is not at %s (was this test built with -trimpath?): %w", root, err)
	}
	return root, nil
}

func lockFile(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
	}
	return func() { f.Close() }, nil
}
