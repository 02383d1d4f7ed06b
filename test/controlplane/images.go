package controlplane

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/pawl-dev/pawl/test/controlplane/kubelet"
)

// Images returns the images of this machine for the mode Process: pawl:dev and any tag
// of the released image are bin/pawl (as user 65532, like a distroless image), and
// postgres:<major> are Debian's server programs (as user postgres, without an entry
// point), and so is pgbouncer:dev, where that is installed. "" is bin/ of the repository.
func Images(bin string) (map[string]kubelet.Image, error) {
	if bin == "" {
		root, err := Root()
		if err != nil {
			return nil, err
		}
		bin = filepath.Join(root, "bin")
	}
	pawl, err := filepath.Abs(filepath.Join(bin, "pawl"))
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(pawl); err != nil {
		return nil, fmt.Errorf("pods of Pawl's image execute %s: %w; make build", pawl, err)
	}
	image := kubelet.Image{Command: []string{pawl}, Files: map[string]string{"/pawl": pawl, "/usr/local/bin/pawl": pawl}, User: 65532}
	images := map[string]kubelet.Image{"pawl:dev": image, "ghcr.io/pawl-dev/pawl": image}
	if _, err := os.Stat("/usr/sbin/pgbouncer"); err == nil {
		images["pgbouncer:dev"] = kubelet.Image{Path: []string{"/usr/sbin"}, User: postgresUser()}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return nil, err
	}
	for _, server := range found {
		dir := filepath.Dir(server)
		images["postgres:"+filepath.Base(filepath.Dir(dir))] = kubelet.Image{Path: []string{dir}, User: postgresUser()}
	}
	return images, nil
}

// Users maps user 999 of PostgreSQL's images to the id on this machine.
func Users() map[int64]int64 { return map[int64]int64{999: postgresUser()} }

// postgresUser returns Debian's PostgreSQL user; the server refuses root.
func postgresUser() int64 {
	if u, err := user.Lookup("postgres"); err == nil {
		if id, err := strconv.ParseInt(u.Uid, 10, 64); err == nil {
			return id
		}
	}
	return int64(os.Getuid())
}
