package local

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/provider/local/internal/disk"
	"github.com/pawl-dev/pawl/provider/local/node"
)

// record describes a VM or network: vms/<id>/vm.json, networks/<id>/network.json. It is
// written once.
type record struct {
	ID       string            `json:"id"`
	Kind     cluster.Kind      `json:"kind"`
	Name     string            `json:"name"`
	Identity string            `json:"identity"`
	Key      string            `json:"key,omitempty"`
	CallID   string            `json:"callId,omitempty"`
	Tags     map[string]string `json:"tags,omitempty"`
	Owner    cluster.Owner     `json:"owner,omitzero"`
	Spec     cluster.Spec      `json:"spec"`
	Created  time.Time         `json:"created"`
	Cores    int               `json:"cores,omitempty"`
	MemoryMB int               `json:"memoryMB,omitempty"`
	Address  string            `json:"address,omitempty"`  // of a VM
	Range    string            `json:"range,omitempty"`    // of a network
	Endpoint string            `json:"endpoint,omitempty"` // of a network: host:port of its cluster
	Node     node.Config       `json:"node,omitzero"`      // read by its process

	unreadable string // why the record cannot be read; only ID and Kind are set then
}

// ref returns the reference to the resource.
func (r *record) ref() cluster.Ref {
	return cluster.Ref{Kind: r.Kind, ID: r.ID, Name: r.Name, Zone: ZoneID, Identity: r.Identity}
}

const (
	networkFile = "network.json"
	lockFile    = "lock"
)

// idPattern matches an id: the kind and 24 hexadecimal digits.
var idPattern = regexp.MustCompile(`^(vm|network)-[0-9a-f]{24}$`)

// folders maps kinds to directories.
var folders = map[cluster.Kind]string{cluster.VM: "vms", cluster.Network: "networks"}

// idOf derives the id, which is also the directory name, from the key: the same key
// creates one resource at most. Without a key each call creates a new one.
func idOf(w cluster.DesiredResource) string {
	key := w.Key
	if key == "" {
		key = disk.Random(16)
	}
	sum := sha256.New()
	for _, part := range []string{w.Tags[cluster.TagInstallation], w.Tags[cluster.TagCluster], string(w.Kind), key} {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return string(w.Kind) + "-" + hex.EncodeToString(sum.Sum(nil))[:24]
}

// dataDir is the data directory.
type dataDir struct{ root string }

func (s dataDir) folder(kind cluster.Kind) string { return filepath.Join(s.root, folders[kind]) }

func (s dataDir) filePath(id string, file ...string) string {
	kind, _, _ := strings.Cut(id, "-")
	return filepath.Join(append([]string{s.folder(cluster.Kind(kind)), id}, file...)...)
}

func fileOf(kind cluster.Kind) string {
	if kind == cluster.Network {
		return networkFile
	}
	return node.File
}

// open creates the data directory if it does not exist.
func (s dataDir) open() error {
	for _, dir := range []string{s.root, s.folder(cluster.VM), s.folder(cluster.Network)} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return ioFault(err)
		}
	}
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.checkExists(); err != nil {
		if err := disk.WriteJSON(filepath.Join(s.root, node.MarkerFile), map[string]any{"made": time.Now().UTC()}); err != nil {
			return ioFault(err)
		}
	}
	s.sweep()
	return nil
}

// checkExists verifies that the data directory exists: then a missing file is really gone.
func (s dataDir) checkExists() error {
	_, err := os.Stat(filepath.Join(s.root, node.MarkerFile))
	return ioFault(err)
}

// lock serializes creates and deletes, in this process and in others.
func (s dataDir) lock() (unlock func(), err error) {
	f, err := disk.Lock(filepath.Join(s.root, lockFile))
	if err != nil {
		return nil, ioFault(err)
	}
	return func() { f.Close() }, nil
}

// sweep removes directories that a crash left incomplete. The caller holds the lock.
func (s dataDir) sweep() {
	for _, folder := range folders {
		entries, err := os.ReadDir(filepath.Join(s.root, folder))
		if err != nil {
			continue // reading reports the error
		}
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), ".") {
				os.RemoveAll(filepath.Join(s.root, folder, e.Name()))
			}
		}
	}
}

// add creates the directory of a record with all files, or nothing. The caller holds the
// lock.
func (s dataDir) add(r *record, files map[string][]byte) (err error) {
	folder := s.folder(r.Kind)
	half, err := os.MkdirTemp(folder, ".new-*") // 0700
	if err != nil {
		return ioFault(err)
	}
	defer func() {
		if err != nil {
			os.RemoveAll(half)
		}
	}()
	for name, data := range files {
		if err := disk.WriteFile(filepath.Join(half, name), data); err != nil {
			return ioFault(err)
		}
	}
	if err := disk.WriteJSON(filepath.Join(half, fileOf(r.Kind)), r); err != nil {
		return ioFault(err)
	}
	if err := os.Rename(half, s.filePath(r.ID)); err != nil {
		return ioFault(err)
	}
	return ioFault(disk.SyncDir(folder))
}

// remove renames a directory atomically and then deletes it. The caller holds the lock:
// sweep would do the same.
func (s dataDir) remove(id string) error {
	path := s.filePath(id)
	away := filepath.Join(filepath.Dir(path), ".gone-"+id+"-"+disk.Random(4))
	if err := os.Rename(path, away); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return s.checkExists()
		}
		return ioFault(err)
	}
	if err := disk.SyncDir(filepath.Dir(path)); err != nil {
		return ioFault(err)
	}
	return ioFault(os.RemoveAll(away))
}

// load reads a record. cluster.ErrGone if its directory is proven to be missing.
func (s dataDir) load(id string) (*record, error) {
	if !idPattern.MatchString(id) {
		return nil, goneError(id, s.checkExists()) // not an id of this provider
	}
	kind, _, _ := strings.Cut(id, "-")
	r := &record{}
	err := disk.ReadJSON(s.filePath(id, fileOf(cluster.Kind(kind))), r)
	if err == nil && r.ID == id {
		return r, nil
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, ioFault(err)
	}
	switch _, dirErr := os.Stat(s.filePath(id)); {
	case errors.Is(dirErr, fs.ErrNotExist):
		return nil, goneError(id, s.checkExists())
	case dirErr != nil:
		return nil, ioFault(dirErr)
	case err == nil:
		err = errors.New("the record belongs to another resource")
	}
	return &record{ID: id, Kind: cluster.Kind(kind), unreadable: err.Error()}, nil
}

// list reads the records of a kind after an id, in the order of ids.
func (s dataDir) list(kind cluster.Kind, after string) ([]*record, error) {
	entries, err := os.ReadDir(s.folder(kind)) // sorted
	if err != nil {
		return nil, ioFault(err)
	}
	if err := s.checkExists(); err != nil {
		return nil, err
	}
	var found []*record
	for _, e := range entries {
		if e.Name() <= after || !idPattern.MatchString(e.Name()) {
			continue
		}
		r, err := s.load(e.Name())
		if errors.Is(err, cluster.ErrGone) {
			continue // deleted after the folder was read
		}
		if err != nil {
			return nil, err
		}
		found = append(found, r)
	}
	return found, nil
}

func goneError(id string, trouble error) error {
	if trouble != nil {
		return trouble
	}
	return fmt.Errorf("%w: %s", cluster.ErrGone, id)
}

// ioFault converts a file error to a declared fault.
func ioFault(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrPermission):
		return cluster.CredentialsRefused.Errorf("the data directory: %w", err)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return cluster.CapacityExhausted.Errorf("the data directory: %w", err)
	}
	return cluster.ProviderUnreachable.Errorf("the data directory: %w", err)
}
