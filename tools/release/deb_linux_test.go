package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestDeb writes a release and lives through its deb on a copy of this machine: installed,
// started, upgraded over the data of the version before, removed, purged.
func TestDeb(t *testing.T) {
	if os.Getenv("PAWL_TEST_RELEASE") == "" {
		t.Skip("builds a release: make test-release does")
	}
	if os.Geteuid() != 0 {
		t.Skip("installs a deb: only root may")
	}
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("dpkg is missing")
	}
	m := copyOfThisMachine(t)
	t.Chdir("../..") // of this thread only

	r := release{version: "0.0.8", out: t.TempDir(), stage: t.TempDir(), nfpm: "bin/nfpm", certs: "/etc/ssl/certs/ca-certificates.crt", time: time.Now().Truncate(time.Second)}
	must(t, r.write([]string{"linux/" + runtime.GOARCH}))
	agree(t, r)
	if name := "pawl_0.0.8_linux_" + runtime.GOARCH + ".spdx.json"; !bytes.Contains(read(t, r.out, name), []byte(`"modernc.org/sqlite"`)) {
		t.Errorf("%s lacks a module", name)
	}
	again := r
	again.out = t.TempDir()
	program, err := again.build("linux", runtime.GOARCH)
	must(t, errors.Join(err, again.papers(), again.pack("deb", program, runtime.GOARCH), again.pack("rpm", program, runtime.GOARCH), again.sums()))
	for line := range strings.Lines(string(read(t, again.out, "SHA256SUMS"))) {
		if !bytes.Contains(read(t, r.out, "SHA256SUMS"), []byte(line)) {
			t.Errorf("packed again, the package has other bytes: %s", line)
		}
	}
	// What the next version packs beside its program is the same.
	next := r
	next.version, next.out = "0.0.9", t.TempDir()
	must(t, os.RemoveAll(filepath.Join(r.stage, "linux-"+runtime.GOARCH)))
	program, err = next.build("linux", runtime.GOARCH)
	must(t, err)
	must(t, next.pack("deb", program, runtime.GOARCH))

	// Installed, it makes its user and its folder, and starts nothing that did not run.
	m.install(r)
	m.expectCalls("daemon-reload", "try-restart pawl-server.service")
	if text := m.run("pawl", "--version"); text != "pawl 0.0.8\n" {
		t.Errorf("installed: %q", text)
	}
	m.run("kubectl-pawl", "--version")
	for _, name := range []string{"usr/share/man/man1/pawl-server.1", "usr/share/bash-completion/completions/pawl", "usr/share/zsh/site-functions/_pawl", "usr/share/fish/vendor_completions.d/pawl.fish"} {
		if !m.exists(name) {
			t.Errorf("/%s is missing", name)
		}
	}
	if _, err := exec.LookPath("systemd-analyze"); err == nil {
		if text := m.run("systemd-analyze", "verify", "--man=no", "/usr/lib/systemd/system/pawl-server.service"); strings.Contains(text, "pawl-server") {
			t.Errorf("systemd-analyze verify: %s", text)
		}
	}

	// Started as the unit says, it writes data: a run that waits.
	must(t, os.Mkdir(m.path("etc/pawl/flows"), 0o755))
	must(t, os.WriteFile(m.path("etc/pawl/flows/note.yaml"), []byte("flowName: Note\nsteps:\n- {stepName: Wait, uses: signal, with: {name: go, deadline: 1h}}\n"), 0o644))
	config := "dsn: /var/lib/pawl/pawl.db\nlisten: 127.0.0.1:0\nflows: /etc/pawl/flows\n"
	must(t, os.WriteFile(m.path("etc/pawl/server.yaml"), []byte(config), 0o644))
	url := m.start()
	id := strings.TrimSpace(m.run("pawl", "run", "Note", "--server", url, "--detach", "-o", "name"))
	if text := m.run("pawl", "get", "--server", url); !strings.Contains(text, "Note") {
		t.Fatalf("no run: %s", text)
	}

	// Upgraded, it is restarted; settings stay, and the run goes on.
	m.install(next)
	m.expectCalls("daemon-reload", "try-restart pawl-server.service")
	m.stop()
	if data := read(t, m.root, "etc/pawl/server.yaml"); string(data) != config {
		t.Errorf("the upgrade changed the settings: %s", data)
	}
	if text := m.run("pawl", "--version"); text != "pawl 0.0.9\n" {
		t.Errorf("upgraded: %q", text)
	}
	url = m.start()
	m.run("pawl", "signal", id, "go", "--server", url, "--wait", "1m")
	if text := m.run("pawl", "get", "--server", url); !strings.Contains(text, "Note") || !strings.Contains(text, "Succeeded") {
		t.Errorf("after the upgrade: %s", text)
	}

	// Removed, it leaves settings and data.
	m.run("dpkg", "--remove", "pawl")
	m.expectCalls("disable --now pawl-server.service", "daemon-reload")
	m.stop()
	for name, want := range map[string]bool{"usr/bin/pawl": false, "usr/lib/systemd/system/pawl-server.service": false, "etc/pawl/server.yaml": true, "var/lib/pawl/pawl.db": true} {
		if m.exists(name) != want {
			t.Errorf("removed: /%s is there: %t", name, !want)
		}
	}

	// Purged, it leaves what others put beside its settings.
	m.run("dpkg", "--purge", "pawl")
	m.expectCalls()
	for name, want := range map[string]bool{"etc/pawl/server.yaml": false, "var/lib/pawl": false, "etc/pawl/flows/note.yaml": true} {
		if m.exists(name) != want {
			t.Errorf("purged: /%s is there: %t", name, !want)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// machine is a copy of this one below root, with a systemctl that notes its calls.
type machine struct {
	t      *testing.T
	root   string
	server *exec.Cmd
	grace  time.Duration
}

// copyOfThisMachine lays an overlay in memory on /, in a mount namespace of this thread. The
// thread is never unlocked: it ends with the test, and its mounts with it.
func copyOfThisMachine(t *testing.T) *machine {
	t.Helper()
	dir := t.TempDir()
	m := &machine{t: t, root: filepath.Join(dir, "root")}
	skip := func(what string, err error) {
		if err != nil {
			t.Skipf("no copy of this machine: %s: %v", what, err)
		}
	}
	runtime.LockOSThread()
	skip("a mount namespace", syscall.Unshare(syscall.CLONE_NEWNS))
	skip("private mounts", syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
	skip("a tmpfs", syscall.Mount("tmpfs", dir, "tmpfs", 0, ""))
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	for _, name := range []string{"upper", "work", "root"} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	skip("an overlay", syscall.Mount("overlay", m.root, "overlay", 0, fmt.Sprintf("lowerdir=/,upperdir=%[1]s/upper,workdir=%[1]s/work", dir)))
	skip("/proc", syscall.Mount("proc", m.path("proc"), "proc", 0, ""))
	if !m.exists("dev/null") {
		skip("/dev/null", syscall.Mknod(m.path("dev/null"), syscall.S_IFCHR|0o666, 1<<8|3))
	}
	must(t, os.MkdirAll(m.path("run/systemd/system"), 0o755))
	must(t, os.MkdirAll(m.path("usr/local/sbin"), 0o755))
	must(t, os.WriteFile(m.path("usr/local/sbin/systemctl"), []byte("#!/bin/sh\necho \"$@\" >>/calls\n"), 0o755))
	return m
}

func (m *machine) path(name string) string { return filepath.Join(m.root, name) }

func (m *machine) exists(name string) bool {
	_, err := os.Lstat(m.path(name))
	return err == nil
}

// command is a command of root of the copy.
func (m *machine) command(name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(m.t.Context(), "/bin/sh", append([]string{"-c", `exec "$0" "$@"`, name}, args...)...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "DEBIAN_FRONTEND=noninteractive"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: m.root}
	return cmd
}

// run returns both outputs.
func (m *machine) run(name string, args ...string) string {
	m.t.Helper()
	out, err := m.command(name, args...).CombinedOutput()
	if err != nil {
		m.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func (m *machine) install(r release) {
	m.t.Helper()
	files, err := filepath.Glob(filepath.Join(r.out, "*.deb"))
	if err != nil || len(files) != 1 {
		m.t.Fatalf("debs: %q, %v", files, err)
	}
	must(m.t, os.WriteFile(m.path("pawl.deb"), read(m.t, "", files[0]), 0o644))
	m.run("dpkg", "--install", "/pawl.deb")
}

// expectCalls compares what systemctl was asked since the last time.
func (m *machine) expectCalls(want ...string) {
	m.t.Helper()
	got, err := os.ReadFile(m.path("calls"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.t.Fatal(err)
	}
	if calls := strings.TrimSpace(string(got)); calls != strings.Join(want, "\n") {
		m.t.Errorf("systemctl was asked %q, not %q", calls, want)
	}
	must(m.t, os.RemoveAll(m.path("calls")))
}

// start runs the unit's command with its user, folder and mask, and returns the address.
func (m *machine) start() string {
	m.t.Helper()
	unit := map[string]string{}
	for line := range strings.Lines(string(read(m.t, m.root, "usr/lib/systemd/system/pawl-server.service"))) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			unit[key] = value
		}
	}
	uid, gid := m.user(unit["User"])
	state, err := os.Stat(m.path("var/lib/" + unit["StateDirectory"]))
	if err != nil || state.Mode() != fs.ModeDir|0o700 || state.Sys().(*syscall.Stat_t).Uid != uid {
		m.t.Fatalf("the state folder is %v, %v", state, err)
	}
	seconds, err := strconv.Atoi(unit["TimeoutStopSec"])
	must(m.t, err)
	m.grace = time.Duration(seconds) * time.Second
	cmd := m.command("/bin/sh", "-c", "umask "+unit["UMask"]+"; exec "+unit["ExecStart"])
	cmd.Dir, cmd.Env = unit["WorkingDirectory"], []string{"PATH=/usr/bin", "HOME=" + unit["WorkingDirectory"]}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	must(m.t, err)
	must(m.t, cmd.Start())
	m.server = cmd
	line, err := bufio.NewReader(out).ReadString('\n')
	_, after, ok := strings.Cut(line, " listens on ")
	if !ok {
		_ = cmd.Wait()
		m.t.Fatalf("the server does not listen: %q, %v\n%s", line, err, &log)
	}
	address, _, _ := strings.Cut(after, " ")
	return address
}

// user looks a name up in the copy's passwd.
func (m *machine) user(name string) (uid, gid uint32) {
	m.t.Helper()
	fields := strings.Split(m.run("getent", "passwd", name), ":")
	for i, id := range []*uint32{&uid, &gid} {
		n, err := strconv.ParseUint(fields[2+i], 10, 32)
		must(m.t, err)
		*id = uint32(n)
	}
	return uid, gid
}

// stop ends the server within the time that the unit gives it.
func (m *machine) stop() {
	m.t.Helper()
	ctx, cancel := context.WithTimeout(m.t.Context(), m.grace)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = m.server.Process.Kill() })()
	must(m.t, m.server.Process.Signal(syscall.SIGTERM))
	if err := m.server.Wait(); err != nil {
		m.t.Errorf("the server ended with %v", err)
	}
}
