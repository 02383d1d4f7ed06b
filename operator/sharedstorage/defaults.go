package sharedstorage

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
)

// Defaults where a spec says nothing.
const (
	defaultReaders = 2
	defaultClass   = "small"
	defaultSize    = 10 << 30
	strict         = "strict" // durability
)

// desiredReaders is the wanted number of readers.
func (c *Cluster) desiredReaders() int {
	if c.Spec.Readers == nil {
		return defaultReaders
	}
	return int(*c.Spec.Readers)
}

func (c *Cluster) haEnabled() bool { return c.Spec.HA.Enabled == nil || *c.Spec.HA.Enabled }

func (c *Cluster) durability() string { return cmp.Or(c.Spec.Durability, strict) }

func (c *Cluster) className() string { return cmp.Or(c.Spec.Class.Name, defaultClass) }

// desiredSize is the wanted size of the volume in bytes.
func (c *Cluster) desiredSize() int64 {
	if c.Spec.Storage.Size == nil || c.Spec.Storage.Size.IsZero() {
		return defaultSize
	}
	return c.Spec.Storage.Size.Value()
}

// parameters are those of a class, and over them those of the spec.
func (c *Cluster) parameters(class port.Class) map[string]string {
	all := maps.Clone(class.Parameters)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, c.Spec.Parameters)
	return all
}

// class resolves a class by its name.
func (f *Facts) class(name string) (port.Class, bool) {
	class, ok := f.Classes[name]
	if class.Name == "" {
		class.Name = name
	}
	return class, ok
}

// What of a spec can be refused. One part that cannot be does not hold up what
// needs only others.
const (
	ofVersion = "version"
	ofClass   = "class"
	ofReaders = "readers"
	ofSize    = "size"
	ofQuota   = "quota"
)

// refusal says what of the spec cannot be done: all that CEL in the CRD refuses
// is refused here again. nil: all can be; with parts: these can.
func (c *Cluster) refusal(parts ...string) error {
	f, s := c.Facts, c.Spec
	asked := func(part string) bool { return len(parts) == 0 || slices.Contains(parts, part) }
	if c.Refused != nil {
		return c.Refused
	}
	if s.Engine.Type != "" && s.Engine.Type != "postgres" {
		return SpecInvalid.Errorf("engine.type: %q is not served, only postgres", s.Engine.Type)
	}
	if had := c.Status.Version; asked(ofVersion) && had != "" && s.Engine.Version != "" && major(had) != major(s.Engine.Version) {
		return port.VersionUnsupported.Errorf("engine.version: from %s to %s is another major version", had, s.Engine.Version)
	}
	if asked(ofVersion) && len(s.Images) > 0 && s.Engine.Version != "" && s.Images[s.Engine.Version] == "" {
		return port.VersionUnsupported.Errorf("images: there is none for version %s", s.Engine.Version)
	}
	if asked(ofClass) && f.known(factClasses) && f != nil {
		if _, ok := f.class(c.className()); !ok {
			return ClassUnknown.Errorf("class.name: there is no class %q", c.className())
		}
	}
	for _, part := range []string{ofVersion, ofQuota} {
		if f != nil && asked(part) && f.Unfit[part] != nil {
			return f.Unfit[part]
		}
	}
	if n := c.desiredReaders(); asked(ofReaders) && (n < 0 || n > 15) {
		return SpecInvalid.Errorf("readers: %d is not within 0 and 15", n)
	}
	if had := c.Status.Storage.Size; asked(ofSize) && had != nil && c.desiredSize() < had.Value() {
		return port.StorageShrink.Errorf("storage.size: the volume has %s, and %d bytes are wanted", had.String(), c.desiredSize())
	}
	return nil
}

func major(version string) string {
	first, _, _ := strings.Cut(version, ".")
	return first
}

// Input is what a run is told: the wish as it was when its event won.
type Input struct {
	Request string               `json:"request,omitempty"` // id of the request it carries out
	Class   port.Class           `json:"class,omitzero"`
	Version string               `json:"version,omitempty"`
	Readers []string             `json:"readers"`           // places the flow goes through
	ID      string               `json:"id,omitempty"`      // the place it is about
	Node    string               `json:"node,omitempty"`    // where to
	Source  string               `json:"source,omitempty"`  // cluster to copy
	Started map[string]time.Time `json:"started,omitempty"` // by name: when each engine was started last
	Size    int64                `json:"size,omitempty"`
	Forced  bool                 `json:"forced,omitempty"`
	Next    int64                `json:"next,omitempty"` // what NextID becomes
}
