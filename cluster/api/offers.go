package api

import (
	"github.com/pawl-dev/pawl/cluster"
	"github.com/pawl-dev/pawl/fault"
)

// Offer tells whether a request to change a cluster would be accepted now.
type Offer struct {
	Verb    string `json:"verb" enum:"start,stop,scale,upgrade,recover,delete,forget"`
	Allowed bool   `json:"allowed"`
	Idle    bool   `json:"idle,omitempty" doc:"it is allowed and changes nothing: the cluster is there already, or on its way"`
	Code    string `json:"code,omitempty" doc:"of the refusal"`
	Reason  string `json:"reason,omitempty"`
	Remedy  string `json:"remedy,omitempty"`
}

// Offers returns the operations on a cluster and whether a caller may request
// them now. It decides as requests do, but a request may still be refused for
// its parameters.
func Offers(c *cluster.Cluster, who cluster.Caller) []Offer {
	var all []Offer
	offer := func(verb string, v admitDecision, err error) {
		o := Offer{Verb: verb, Allowed: err == nil, Idle: err == nil && v != changes}
		if err != nil {
			kind := fault.Of(err)
			o.Code, o.Reason, o.Remedy = string(kind.Code), fault.Message(err), kind.Remedy
		}
		all = append(all, o)
	}
	for _, kind := range []cluster.RequestKind{cluster.RequestStart, cluster.RequestStop, cluster.RequestScale, cluster.RequestUpgrade, cluster.RequestRecover, cluster.RequestDelete} {
		v, err := admit(c, kind)
		offer(string(kind), v, err)
	}
	var err error
	switch {
	case !who.Operator:
		err = cluster.AccessRefused.Errorf("forgetting is for operators")
	case c.State != cluster.Expunge:
		err = cluster.StateRefused.Errorf("forget of cluster %s: it is %s, not %s", c.Name, c.State, cluster.Expunge)
	}
	offer("forget", changes, err)
	return all
}
