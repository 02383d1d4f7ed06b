package settings

import (
	"cmp"

	"github.com/pawl-dev/pawl/cluster"
)

// Version is a version of the software on the nodes.
type Version struct {
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Semantic  string         `json:"semanticVersion"` // x.y.z
	Template  cluster.Entity `json:"template"`
	MinCores  int            `json:"minCores,omitempty"`
	MinMemory int            `json:"minMemory,omitempty"` // MB
	Disabled  bool           `json:"disabled,omitempty"`
}

// Versions are the configured versions.
type Versions []Version

// Find returns a version by id or name. ENTITY_REFUSED if it is not configured or
// disabled.
func (all Versions) Find(id string) (Version, error) {
	for _, v := range all {
		if id != "" && (v.ID == id || v.Name == id) {
			if v.Disabled {
				return v, cluster.EntityRefused.Errorf("version %s is disabled", id).With("parameter", "versionid")
			}
			return v, nil
		}
	}
	return Version{}, cluster.EntityRefused.Errorf("version %q is not configured", id).With("parameter", "versionid")
}

// Same reports that a reported version, an id or x.y.z, is the version with an id.
func (all Versions) Same(reported, id string) bool {
	return reported == id || cluster.SameVersion(reported, all.Semantic(id))
}

// Semantic returns the x.y.z of a version, or its id if it is no longer
// configured.
func (all Versions) Semantic(id string) string {
	v, _ := all.Find(id)
	return cmp.Or(v.Semantic, id)
}
