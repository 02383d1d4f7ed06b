package local

import (
	"cmp"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Installed returns the folders of PostgreSQL's server programs on this machine, by version.
func Installed() (map[string]string, error) { return installedVersions() }

// installedVersions finds the server programs of this machine.
func installedVersions() (map[string]string, error) {
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		return nil, err
	}
	if path, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(path))
	}
	found := map[string]string{}
	for _, dir := range dirs {
		out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
		if fields := strings.Fields(string(out)); err == nil && len(fields) > 2 && found[fields[2]] == "" {
			found[fields[2]] = dir
		}
	}
	return found, nil
}

// binaries returns the programs of a version: this version, or the newest that begins with it;
// empty: the newest.
func (s *Placement) binaries(want string) (version, dir string, err error) {
	known := slices.SortedFunc(maps.Keys(s.o.Versions), func(a, b string) int { return compareVersions(b, a) })
	for _, v := range known {
		if want == "" || v == want || strings.HasPrefix(v, want+".") {
			return v, s.o.Versions[v], nil
		}
	}
	if len(known) == 0 {
		return "", "", port.VersionUnsupported.Errorf("no PostgreSQL is installed: apt-get install postgresql")
	}
	return "", "", port.VersionUnsupported.Errorf("PostgreSQL %s is not installed; there is %s", want, strings.Join(known, ", "))
}

func compareVersions(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := range max(len(as), len(bs)) {
		if c := cmp.Compare(number(as, i), number(bs, i)); c != 0 {
			return c
		}
	}
	return strings.Compare(a, b)
}

func number(parts []string, i int) int {
	if i >= len(parts) {
		return -1
	}
	n, err := strconv.Atoi(parts[i])
	if err != nil {
		return -1
	}
	return n
}
