package events

import (
	"strings"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/server/route"
)

// ofRollouts adds the changes of Rollouts that a request asks for.
func (t *stream) ofRollouts(in *eventStream) error {
	if in.Rollout == "" && (t.s.Rollouts == nil || !t.who.Operator || in.Run != "" || !t.wants("rollout")) {
		return nil
	}
	ref := control.Ref{}
	if in.Rollout != "" {
		namespace, name, ok := strings.Cut(in.Rollout, "/")
		switch {
		case !ok || namespace == "" || name == "" || strings.Contains(name, "/"):
			return route.Malformed.Errorf("rollout=%s is not namespace/name", in.Rollout)
		case t.s.Rollouts == nil:
			return route.NotServed.Errorf("this server has no Rollouts")
		case !t.who.Operator:
			return route.Forbidden.Errorf("Rollouts are for operators")
		}
		ref = control.Ref{Kind: "Rollout", Namespace: namespace, Name: name}
		t.wants = func(kind string) bool { return kind == "rollout" }
		t.clusters = nil
	}
	t.rollouts = &ref
	return nil
}

func (t *stream) writeRollout() error {
	e := RolloutEvent{}
	if t.rollouts.Name != "" {
		e.ID = t.rollouts.Namespace + "/" + t.rollouts.Name
	}
	return t.writeEvent("rollout", e)
}
