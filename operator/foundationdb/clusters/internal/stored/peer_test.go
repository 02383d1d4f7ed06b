package stored_test

import (
	"strconv"
	"testing"

	"github.com/pawl-dev/pawl/kube/api/fdb/v1beta2"
	"github.com/pawl-dev/pawl/operator/foundationdb/clusters/internal/stored"
)

// A write whose answer is lost may have been done, however many failed after it.
func TestWritesWithoutAnAnswer(t *testing.T) {
	at := func(version int, running string) *v1beta2.FoundationDBCluster {
		c := &v1beta2.FoundationDBCluster{}
		c.ResourceVersion, c.Status.RunningVersion = strconv.Itoa(version), running
		return c
	}
	for after := range 16 {
		var peer stored.Peer
		peer.Stored(at(1, "7.3.69"))
		peer.Tries(at(1, "done"))
		for n := range after {
			peer.Tries(at(1, strconv.Itoa(n)))
		}
		if got := peer.Judge(at(2, "done"), ""); got != stored.Current {
			t.Errorf("after %d other writes without an answer the first one is %v", after, got)
		}
		if got := peer.Judge(at(3, "another"), ""); got != stored.Foreign {
			t.Errorf("what nobody of us has written is %v", got)
		}
	}
}

// Another instance of this operator, that stood still, is no other operator.
func TestStatusOfAnotherInstance(t *testing.T) {
	c := &v1beta2.FoundationDBCluster{}
	c.ResourceVersion, c.Status.RunningVersion = "1", "7.3.69"
	var peer stored.Peer
	peer.Stored(c)
	c.ResourceVersion, c.Status.RunningVersion = "2", "7.3.79"
	stored.Sign(&c.Status)
	c.Status.ConnectionString = "a:b@10.1.0.1:4501"
	if got := peer.Judge(c, ""); got != stored.Current {
		t.Errorf("a status that another instance has written is %v", got)
	}
	c.ResourceVersion, c.Status.RunningVersion = "3", "7.4.6"
	if got := peer.Judge(c, ""); got != stored.Foreign {
		t.Errorf("a status that somebody has changed since is %v", got)
	}
}
