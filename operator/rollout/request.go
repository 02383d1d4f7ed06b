package rollout

import (
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/control/request"
	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/rollout"
)

// verbs are the requests, in the order in which they are accepted.
var verbs = []rollout.Verb{rollout.Abandon, rollout.RollBackVerb, rollout.Resume, rollout.Retry, rollout.Approve}

// annotationOf is where a request stands: pawl.dev/approve.
func annotationOf(v rollout.Verb) string { return "pawl.dev/" + string(v) }

// isRequest reports an annotation that a pass must see.
func isRequest(annotation string) bool {
	return slices.ContainsFunc(verbs, func(v rollout.Verb) bool { return annotationOf(v) == annotation })
}

// noPause is the pause in the stamp of a resume or retry that was made while there was none.
const noPause = "none"

// stamp returns the value of an annotation with an id. That of a resume or retry names the pause, so
// that an old one never ends a later pause.
func stamp(v rollout.Verb, value string, pause *api.RolloutPause) string {
	id := request.NewID()
	if v == rollout.Resume || v == rollout.Retry {
		of := noPause
		if pause != nil {
			of = pause.ID
		}
		id = of + "." + id
	}
	return request.Stamp(strings.TrimSpace(value), id)
}

// parseRequest reads a stamped value: <argument>[; by=<name>][; reason=<text>]#<id>.
func parseRequest(v rollout.Verb, value string) rollout.Request {
	text, id := request.Parse(value)
	r := rollout.Request{ID: id, Verb: v, By: "somebody"}
	if pause, _, ok := strings.Cut(id, "."); ok && (v == rollout.Resume || v == rollout.Retry) {
		r.Pause = pause
	}
	for i, part := range strings.Split(text, ";") {
		part = strings.TrimSpace(part)
		name, of, named := strings.Cut(part, "=")
		switch {
		case named && name == "by" && of != "":
			r.By = of
		case named && name == "reason":
			r.Reason = of
		case i == 0 && part != "true":
			r.Argument = part
		case r.Reason != "": // a semicolon in the reason
			r.Reason += "; " + part
		}
	}
	return r
}
