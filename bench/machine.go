package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// machine describes the machine that produced the figures.
type machine struct {
	CPU        string  `json:"cpu"`
	Cores      int     `json:"cores"`
	MemoryGiB  float64 `json:"memoryGiB"`
	Kernel     string  `json:"kernel"`
	FileSystem string  `json:"fileSystem"`
	SyncMicros float64 `json:"syncMicros"` // one fdatasync after an append of 4 KiB, median
	Go         string  `json:"go"`
	PostgreSQL string  `json:"postgreSQL,omitempty"`
	River      string  `json:"river"`
}

func (m machine) same(other machine) bool {
	return m.CPU == other.CPU && m.Cores == other.Cores && m.FileSystem == other.FileSystem
}

// describeMachine describes this machine and the disk of dir.
func describeMachine(dir string) machine {
	m := machine{
		CPU: fieldOf("/proc/cpuinfo", "model name"), Cores: runtime.NumCPU(),
		Kernel: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(),
		FileSystem: fileSystem(dir), SyncMicros: round(syncTime(dir)),
	}
	if kib, err := strconv.ParseFloat(strings.TrimSuffix(fieldOf("/proc/meminfo", "MemTotal"), " kB"), 64); err == nil {
		m.MemoryGiB = round(kib / (1 << 20))
	}
	if out, err := exec.Command("uname", "-sr").Output(); err == nil {
		m.Kernel = strings.TrimSpace(string(out))
	}
	return m
}

// fieldOf returns the first value of "name : value" in a file.
func fieldOf(path, name string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func fileSystem(dir string) string {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return "unknown"
	}
	names := map[int64]string{unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs",
		unix.TMPFS_MAGIC: "tmpfs", unix.OVERLAYFS_SUPER_MAGIC: "overlayfs", 0x2fc12fc1: "zfs", unix.NFS_SUPER_MAGIC: "nfs"}
	if name, ok := names[int64(s.Type)]; ok { //nolint:unconvert // it is an int32 on some processors
		return name
	}
	return fmt.Sprintf("type %#x", s.Type)
}

// syncTime returns the duration of one durable write on this disk, in microseconds.
func syncTime(dir string) float64 {
	f, err := os.CreateTemp(dir, "sync-")
	if err != nil {
		return 0
	}
	defer os.Remove(f.Name())
	defer f.Close()
	page := make([]byte, 4096)
	var took []time.Duration
	for range 200 {
		began := time.Now()
		if _, err := f.Write(page); err != nil {
			return 0
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			return 0
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return float64(took[len(took)/2]) / float64(time.Microsecond)
}

// versionOf returns the version of a module in a built program.
func versionOf(program, module string) string {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return ""
	}
	for _, dep := range info.Deps {
		if dep.Path == module {
			return dep.Version
		}
	}
	return ""
}

// commitOf returns the commit of the checkout, with "+" appended if files differ.
func commitOf(root string) string {
	out, err := exec.Command("git", "-C", root, "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return ""
	}
	commit := strings.TrimSpace(string(out))
	if exec.Command("git", "-C", root, "diff", "--quiet", "HEAD", "--", ".", ":!"+filepath.Base("bench")).Run() != nil {
		commit += "+"
	}
	return commit
}
