package report

import (
	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb"
	"github.com/pawl-dev/pawl/view"
)

// Deprecation is a field in use that goes away or has no effect.
type Deprecation struct {
	Cluster string `json:"cluster"`
	Field   string `json:"field"`
	Instead string `json:"instead"`
}

// Deprecated returns the fields of a cluster that go away or have no effect, and what to write in their place.
func Deprecated(c *v1beta2.FoundationDBCluster) []Deprecation {
	var found []Deprecation
	add := func(used bool, field, instead string) {
		if used {
			found = append(found, Deprecation{c.Namespace + "/" + c.Name, field, instead})
		}
	}
	s := c.Spec
	add(len(s.Buggify.CrashLoop) > 0, "spec.buggify.crashLoop", "write spec.buggify.crashLoopContainers with containerName foundationdb")
	add(s.DatabaseConfiguration.Proxies > 0, "spec.databaseConfiguration.proxies", "write commit_proxies and grv_proxies")
	add(s.DatabaseConfiguration.StorageEngine == "ssd" || s.DatabaseConfiguration.StorageEngine == "memory", "spec.databaseConfiguration.storage_engine", "write the engine that the alias stands for: "+s.DatabaseConfiguration.StorageEngine+"-2")
	add(s.ImageType == v1beta2.ImageTypeSplit, "spec.imageType", "write unified: one image has all that a pod needs, and it is the default")
	for _, field := range foundationdb.Ignored(s) {
		add(true, field, "remove it: it has no effect")
	}
	return found
}

// DeprecationTable is the table of these fields.
func DeprecationTable(all []Deprecation) view.Table {
	return view.TableOf(all, []view.Column[Deprecation]{
		{Head: "CLUSTER", Cell: func(d Deprecation) string { return d.Cluster }},
		{Head: "FIELD", Cell: func(d Deprecation) string { return d.Field }},
		{Head: "INSTEAD", Cell: func(d Deprecation) string { return d.Instead }},
	})
}
