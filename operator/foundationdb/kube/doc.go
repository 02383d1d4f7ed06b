// Package kube is the FoundationDB operator on Kubernetes: its objects, the sidecars of its pods, and its
// controllers.
//
//	Objects      port.Objects by controller-runtime: reads from a cache, writes to the API server
//	Sidecars     port.Sidecars by HTTP to the pods of the split image
//	Controllers  passes over FoundationDBClusters, FoundationDBBackups and FoundationDBRestores
//	Options      the flags --fdb-… of `pawl operator`
//	Rules        the rights that the operator needs
//
// The reconcilers stand elsewhere, and know no Kubernetes client:
//
//	objects, err := kube.NewObjects(m, kube.ObjectsOptions{Selector: options.Selector})
//	sidecars := kube.NewSidecars(kube.SidecarOptions{GetTimeout: options.GetTimeout, PostTimeout: options.PostTimeout, Wrap: m.Fence})
//	err = kube.Controllers{Manager: m, Objects: objects, Look: options.Look, Clusters: …, Backups: …, Restores: …}.Setup()
//
// What is read from where:
//
//	FoundationDBCluster, -Backup, -Restore       cache, those that the label selector chooses
//	Pod, PersistentVolumeClaim, Service,         cache; of objects that are none of ours it holds names and labels,
//	Deployment                                   since labels are configurable and owners cannot be selected
//	Node                                         cache of name, labels and taints, from the first time that somebody asks
//	ConfigMap                                    API server, by name: no right over other ConfigMaps is needed
//
// What wakes a pass:
//
//	the object     its spec, deletion, labels, annotations below pawl.dev/: at once
//	its children   found by their owner, where it matters (see changes.go): at most once a second
//	its cluster    of backups and restores: version, connection string, availability, deletion
//	nodes          their labels and taints, for clusters that ask for taints
//	the clock      what the last pass asked for, and for clusters and backups at least each Look
package kube
