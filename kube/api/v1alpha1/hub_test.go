package v1alpha1_test

import (
	"sigs.k8s.io/controller-runtime/pkg/conversion"

	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
)

// Other versions of these kinds are converted to and from this one.
var (
	_ conversion.Hub = (*api.Rollout)(nil)
	_ conversion.Hub = (*api.Run)(nil)
	_ conversion.Hub = (*api.RunHistory)(nil)
	_ conversion.Hub = (*api.SharedStorageCluster)(nil)
)
