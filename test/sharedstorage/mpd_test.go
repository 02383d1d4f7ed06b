package sharedstorage_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	mpd "github.com/pawl-dev/pawl/kube/api/mpd/v1"
)

// An MPDCluster is served like a SharedStorageCluster: its fields, requests, annotations
// and state names are those of PolarDB Stack; a local one is refused.
func TestMPDCluster(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.kubectl("apply", "-f", "../../examples/sharedstorage/classes.yaml", "-f", "../../examples/sharedstorage/mpdcluster.yaml")
	get := func(ctx context.Context, name string) (*mpd.MPDCluster, error) {
		c := &mpd.MPDCluster{}
		return c, w.client.Get(ctx, client.ObjectKey{Namespace: w.namespace, Name: name}, c)
	}
	until := func(what string, holds func(*mpd.MPDCluster) bool) (c *mpd.MPDCluster) {
		t.Helper()
		w.await(8*time.Minute, what, func(ctx context.Context) (err error) {
			if c, err = get(ctx, "polar"); err == nil && !holds(c) {
				err = fmt.Errorf("%s leader %s, %d followers, annotations %v", c.Status.ClusterStatus, c.Status.LeaderInstanceID, c.Status.FollowerNum, c.Annotations)
			}
			return err
		})
		return c
	}
	c := until("Running with one follower", func(c *mpd.MPDCluster) bool {
		return c.Status.ClusterStatus == "Running" && c.Status.FollowerNum == 1
	})
	leader := c.Status.DBInstanceStatus[c.Status.LeaderInstanceID]
	if leader == nil || leader.InsType != "rw" || leader.Role != "leader" || c.Status.LeaderInstanceHost == "" || leader.NetInfo.WorkingPort != 5500 && leader.NetInfo.WorkingPort != 5505 {
		t.Errorf("the leader is %+v at %q", leader, c.Status.LeaderInstanceHost)
	}
	if c.Spec.Description != "orders of the shop" {
		t.Errorf("the description has become %q", c.Spec.Description)
	}

	target := ""
	for id := range c.Status.DBInstanceStatus {
		if id != c.Status.LeaderInstanceID {
			target = id
		}
	}
	w.kubectl("annotate", "mpdcluster", "polar", "switchRw="+target)
	until("the writer was switched and the annotation is gone", func(c *mpd.MPDCluster) bool {
		return c.Status.LeaderInstanceID == target && c.Status.ClusterStatus == "Running" && c.Annotations["switchRw"] == ""
	})

	w.kubectl("patch", "mpdcluster", "polar", "--type=merge", "-p", `{"spec":{"classInfoModifyTo":{"className":"wide"}}}`)
	until("the class was changed and the spec is the desired state", func(c *mpd.MPDCluster) bool {
		return c.Status.ClusterStatus == "Running" && c.Spec.ClassInfo.ClassName == "wide" && c.Spec.ClassInfoModifyTo.ClassName == ""
	})

	w.kubectl("patch", "mpdcluster", "polar", "--type=merge", "-p", `{"spec":{"dbClusterType":"local"}}`)
	until("a local cluster is refused", func(c *mpd.MPDCluster) bool {
		return slices.ContainsFunc(c.Status.Conditions, func(c mpd.Condition) bool { return c.Reason == "ClusterTypeUnsupported" })
	})
	w.kubectl("delete", "mpdcluster", "polar", "--timeout=5m")
}
