package rollout

import (
	"context"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/control/request"
	api "github.com/pawl-dev/pawl/kube/api/v1alpha1"
	"github.com/pawl-dev/pawl/outcome"
	"github.com/pawl-dev/pawl/rollout"
)

// verbs are the requests, in the order in which they are accepted.
var verbs = []rollout.Verb{rollout.Abandon, rollout.RollBackVerb, rollout.Resume, rollout.Retry, rollout.Approve}

// accept takes one request: it is stamped before it counts, and removed when it is answered.
func accept(ctx context.Context, p *pass) outcome.Outcome {
	r := p.rollout()
	if why := r.Annotations[PauseReasonAnnotation]; why != "" && !r.Spec.RolloutPlan.Paused {
		if err := p.store.Annotate(ctx, p.draft, PauseReasonAnnotation, why, ""); err != nil {
			return outcome.Fail(err)
		}
		r = p.rollout()
	}
	answered := func(id string) bool { return r.Status.LastRequest != nil && r.Status.LastRequest.ID == id }
	for _, v := range slices.Concat(verbs, unknownVerbs(r.Annotations)) {
		key := annotationOf(v)
		value := r.Annotations[key]
		switch request.Next(value, answered) {
		case request.RemoveIt:
			if err := p.store.Annotate(ctx, p.draft, key, value, ""); err != nil {
				return outcome.Fail(err)
			}
			r = p.rollout()
		case request.StampIt:
			if p.request != nil {
				continue
			}
			stamped := stamp(v, value, r.Status.Pause)
			if err := p.store.Annotate(ctx, p.draft, key, value, stamped); err != nil {
				return outcome.Fail(err)
			}
			r = p.rollout()
			p.take(v, key, stamped)
		case request.AcceptIt:
			if p.request == nil {
				p.take(v, key, value)
			}
		case request.Ignore:
		}
	}
	return outcome.Done()
}

func (p *pass) take(v rollout.Verb, key, value string) {
	asked := parseRequest(v, value)
	p.request, p.annotated, p.value = &asked, key, value
}

// noRequests are the words below pawl.dev that mean something else, on a Rollout or on what it owns.
var noRequests = []string{"application", "component", "held", "left", "rollout", "unguarded"}

// PauseReasonAnnotation on a Rollout says who has paused its plan, and why. It goes when the plan is not
// paused.
const PauseReasonAnnotation = control.RequestPrefix + "pause-reason"

// unknownVerbs are words in the place of a verb: they are answered with a refusal.
func unknownVerbs(annotations map[string]string) (all []rollout.Verb) {
	for key := range annotations {
		word, below := strings.CutPrefix(key, control.RequestPrefix)
		known := slices.Contains(verbs, rollout.Verb(word)) || slices.Contains(noRequests, word)
		if below && !known && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") == "" {
			all = append(all, rollout.Verb(word))
		}
	}
	slices.Sort(all)
	return all
}

// annotationOf is where a request stands: pawl.dev/approve.
func annotationOf(v rollout.Verb) string { return "pawl.dev/" + string(v) }

// isRequest reports an annotation that a pass must see.
func isRequest(annotation string) bool {
	return annotation == DryRunAnnotation || slices.ContainsFunc(verbs, func(v rollout.Verb) bool { return annotationOf(v) == annotation })
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
	for first, rest := true, text; rest != ""; first = false {
		rest = strings.TrimSpace(rest)
		if reason, ok := strings.CutPrefix(rest, "reason="); ok { // the text of a person goes to the end
			r.Reason = strings.TrimSpace(reason)
			break
		}
		var part string
		part, rest, _ = strings.Cut(rest, ";")
		part = strings.TrimSpace(part)
		switch by, named := strings.CutPrefix(part, "by="); {
		case named && by != "":
			r.By = by
		case first && !named && part != "true":
			r.Argument = part
		}
	}
	return r
}
