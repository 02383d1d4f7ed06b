package node

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/pawl-dev/pawl/test/controlplane"
)

const plugins = "/usr/lib/cni"

func (n *Node) check(context.Context) (err error) {
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		return Unfit.Errorf("this is %s, as user %d", runtime.GOOS, os.Getuid())
	}
	if _, err := os.Stat(Dir); err == nil {
		return Exists.Errorf("%s is there", Dir)
	}
	if n.plane, err = controlplane.Find(n.Bin); err != nil {
		return err
	}
	if others := podCgroups(); len(others) > 0 { // Stop would take their pods for ours
		return Unfit.Errorf("another kubelet runs pods on this machine: %s is there", others[0])
	}
	var missing []string
	for _, name := range []string{"containerd", "ctr", "runc", "nft", "ip", "mmdebstrap"} {
		if _, err := exec.LookPath(name); err != nil {
			missing = append(missing, name)
		}
	}
	for _, file := range []string{plugins + "/bridge", plugins + "/host-local", n.program("kubelet"), n.program("kube-proxy"), n.program("kubeadm"), n.program("coredns"), n.program("pause"), n.program("pawl")} {
		if _, err := os.Stat(file); err != nil {
			missing = append(missing, file)
		}
	}
	if len(missing) > 0 {
		return Unfit.Errorf("missing: %s", strings.Join(missing, ", "))
	}
	return os.MkdirAll(Dir, 0o755)
}

// settings of the kernel: those that the node needs, and those that kubelet changes by itself
// (""), which are only remembered.
var settings = map[string]string{
	"net/ipv4/ip_forward":                "1",
	"net/bridge/bridge-nf-call-iptables": "1", // or answers of a pod on the bridge miss the way back through the Service
	"net/ipv4/conf/all/route_localnet":   "",
	"vm/overcommit_memory":               "",
	"vm/panic_on_oom":                    "",
	"kernel/panic":                       "",
	"kernel/panic_on_oops":               "",
	"kernel/keys/root_maxkeys":           "",
	"kernel/keys/root_maxbytes":          "",
}

// folders that programs use wherever Dir is. Those that Start has not found are removed by Stop.
var folders = []string{"/var/lib/kubelet", "/var/lib/cni", "/var/log/containers", "/run/containerd"}

// before is what Start has found, so that Stop leaves the same.
type before struct {
	Settings map[string]string
	Absent   []string // of folders
}

func (n *Node) setKernel(context.Context) error {
	b := before{Settings: map[string]string{}}
	for name := range settings {
		if value, err := os.ReadFile(filepath.Join("/proc/sys", name)); err == nil {
			b.Settings[name] = strings.TrimSpace(string(value))
		}
	}
	for _, folder := range folders {
		if _, err := os.Stat(folder); errors.Is(err, os.ErrNotExist) {
			b.Absent = append(b.Absent, folder)
		}
	}
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path("before.json"), text, 0o600); err != nil {
		return err
	}
	return writeSettings(settings)
}

// readBefore returns nothing when Start has not come so far.
func readBefore() (b before, err error) {
	text, err := os.ReadFile(path("before.json"))
	if errors.Is(err, os.ErrNotExist) {
		return b, nil
	}
	if err != nil {
		return b, err
	}
	err = json.Unmarshal(text, &b)
	return b, err
}

func (n *Node) resetKernel(context.Context) error {
	b, err := readBefore()
	return errors.Join(err, writeSettings(b.Settings))
}

func writeSettings(values map[string]string) error {
	var errs []error
	for name, value := range values {
		if value != "" {
			errs = append(errs, os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0o644))
		}
	}
	return errors.Join(errs...)
}

func (n *Node) addBridge(ctx context.Context) error {
	for _, args := range [][]string{
		{"link", "add", Bridge, "type", "bridge"},
		{"addr", "add", Address + "/16", "dev", Bridge},
		{"link", "set", Bridge, "up"},
	} {
		if _, err := run(ctx, "", "ip", args...); err != nil {
			return err
		}
	}
	return nil
}

func (n *Node) removeBridge(ctx context.Context) error {
	if _, err := os.Stat("/sys/class/net/" + Bridge); err != nil {
		return nil //nolint:nilerr // there is none
	}
	_, err := run(ctx, "", "ip", "link", "del", Bridge)
	return err
}

// removeRules removes the tables of kube-proxy.
func (n *Node) removeRules(ctx context.Context) error {
	tables, err := run(ctx, "", "nft", "list", "tables")
	if err != nil {
		return err
	}
	for line := range strings.Lines(tables) {
		if f := strings.Fields(line); len(f) == 3 && strings.HasPrefix(f[2], "kube-proxy") {
			_, one := run(ctx, "", "nft", "delete", "table", f[1], f[2])
			err = errors.Join(err, one)
		}
	}
	return err
}

// unmount unmounts what is mounted below Dir, the deepest first.
func (n *Node) unmount(context.Context) error {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var points []string
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 4 && (f[4] == Dir || strings.HasPrefix(f[4], Dir+"/")) {
			points = append(points, f[4])
		}
	}
	for _, point := range slices.Backward(points) {
		if one := syscall.Unmount(point, syscall.MNT_DETACH); one != nil {
			err = errors.Join(err, &os.PathError{Op: "unmount", Path: point, Err: one})
		}
	}
	return err
}

// removeFiles removes Dir, last of all: what was before is in it.
func (n *Node) removeFiles(context.Context) error {
	if left := programs(); len(left) > 0 {
		return Failed.Errorf("%d processes are left", len(left))
	}
	b, err := readBefore()
	for _, folder := range b.Absent {
		err = errors.Join(err, os.RemoveAll(folder))
	}
	return errors.Join(err, os.RemoveAll(Dir))
}
