package api

import (
	"testing"

	"github.com/pawl-dev/pawl/cluster"
)

// For each state and verb, an Offer agrees with the decision on a request.
func TestOffersAreWhatRequestsMeet(t *testing.T) {
	for _, state := range cluster.States {
		c := &cluster.Cluster{Name: "blue", State: state, Desired: cluster.WantRunning}
		for _, operator := range []bool{false, true} {
			for _, o := range Offers(c, cluster.Caller{Operator: operator}) {
				if o.Allowed == (o.Reason != "") || o.Allowed == (o.Code != "") {
					t.Errorf("%s %s: %+v", state, o.Verb, o)
				}
				if o.Verb == "forget" {
					if want := operator && state == cluster.Expunge; o.Allowed != want {
						t.Errorf("%s forget, operator %v: offered %v", state, operator, o.Allowed)
					}
					continue
				}
				v, err := admit(c, cluster.RequestKind(o.Verb))
				if o.Allowed != (err == nil) || o.Idle != (err == nil && v != changes) {
					t.Errorf("%s %s is offered as %+v and admitted as %v, %v", state, o.Verb, o, v, err)
				}
			}
		}
	}
}
