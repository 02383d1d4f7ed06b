package clusters_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/sim"
)

// TestRestartAfterAnUpgradeIsTakenBack: all files are ready for an upgrade, whose restart has to wait, when it is taken back or held. What
// restarts from then on starts with the version that is wanted.
func TestRestartAfterAnUpgradeIsTakenBack(t *testing.T) {
	for _, image := range []v1beta2.ImageType{v1beta2.ImageTypeSplit, v1beta2.ImageTypeUnified} {
		for name, change := range map[string]string{
			"knob":         `"version":"7.3.69","processes":{"general":{"customParameters":["knob_x=1"]}}`,
			"TLS":          `"version":"7.3.69","mainContainer":{"enableTls":true}`,
			"TLS and pods": `"version":"7.3.69","mainContainer":{"enableTls":true},"processes":{"general":{"podTemplate":{"spec":{"containers":[{"name":"foundationdb","resources":{"requests":{"cpu":"2"}}}]}}}}`,
			"held, knob":   `"processes":{"general":{"customParameters":["knob_x=1"]}}`,
			"held, TLS":    `"mainContainer":{"enableTls":true}`,
		} {
			t.Run(string(image)+" "+name, func(t *testing.T) {
				t.Parallel()
				l := begin(t, sim.Options{}, func(c *v1beta2.FoundationDBCluster) {
					c.Spec.ImageType, c.Spec.MinimumUptimeSecondsForBounce = image, 7200
				})
				l.settle(30 * time.Minute)
				versions := []string{"7.1.67", "7.3.69", "7.4.6"}
				held := strings.HasPrefix(name, "held")
				l.writes(time.Second, versions...)
				l.edit(`{"spec":{"version":"7.4.6"}}`)
				for until := l.Now().Add(20 * time.Minute); l.Now().Before(until); {
					l.pass()
				}
				if held {
					l.writes(time.Second, versions[:2]...)
				}
				l.edit(`{"spec":{"minimumUptimeSecondsForBounce":60,` + change + `}}`)
				for until := l.Now().Add(6 * time.Hour); l.Now().Before(until) && !l.pass().IsDone(); {
				}
				if at := slices.IndexFunc(l.Cluster().Transcript(), func(line string) bool { return strings.Contains(line, " 7.4.6 at ") }); at >= 0 {
					l.fail("%s", l.Cluster().Transcript()[at])
				}
				if held {
					l.writes(time.Second, versions...)
					l.settle(6 * time.Hour)
				}
				l.settled()
				l.tidy()
				l.kept()
			})
		}
	}
}
