package clusters_test

import (
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// TestVersionBeforeTheFirstServer: until a server has started there are no data that another version could not read, so
// that any version may follow the first one.
func TestVersionBeforeTheFirstServer(t *testing.T) {
	for _, image := range []v1beta2.ImageType{v1beta2.ImageTypeSplit, v1beta2.ImageTypeUnified} {
		for first, then := range map[string]string{"7.4.6": "7.3.69", "7.3.69": "7.4.6"} {
			t.Run(string(image)+" "+first, func(t *testing.T) {
				t.Parallel()
				l := begin(t, sim.Options{}, func(c *v1beta2.FoundationDBCluster) {
					c.Spec.ImageType, c.Spec.Version = image, first
				})
				l.pass() // makes the pods
				if len(l.podList()) == 0 || l.cluster().Status.ConnectionString != "" {
					l.fail("not at the moment before the first server starts")
				}
				l.edit(`{"spec":{"version":"` + then + `"}}`)
				l.settle(time.Hour)
				l.writes(time.Second, "7.3.69", "7.4.6")
				l.lasts(time.Minute)
				l.settled()
				l.tidy()
				runs(then)(l)
				l.kept()
			})
		}
	}
}
