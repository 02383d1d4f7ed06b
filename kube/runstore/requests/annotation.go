// Package requests reads what annotations of an object ask of a run, and has an engine
// carry it out.
package requests

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/control/request"
	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/workflow"
	"github.com/pawl-dev/pawl/workflow/runtype"
)

// RequestMalformed is the refusal of an annotation that cannot be read.
var RequestMalformed = fault.Declare(fault.Kind{
	Code: "ANNOTATION_MALFORMED", Class: fault.Invalid,
	Title:  "the annotation is not a valid request",
	Remedy: "Use the syntax in the guide, for example pawl.dev/resume=<id>,from=failed, and set it again.",
})

// Request is one request in an annotation:
//
//	pawl.dev/pause            <id>
//	pawl.dev/resume           <id>[,from=first|failed|<step>]
//	pawl.dev/cancel           <id>[,undo|drop]
//	pawl.dev/skip             <id>,<step>
//	pawl.dev/signal.<name>    <id>[,<JSON>]
//	pawl.dev/progress.<step>  <done>/<total>[,text]
//
// A value without an id (true, 1, T, or nothing before the comma) is stamped with one first.
type Request struct {
	Key, Value string
	Verb       runtype.Verb // Signal for signals
	ID         string       // "": to be stamped
	From       workflow.From
	Mode       runtype.Mode
	Step       string // of skip and progress; the name of a signal
	Payload    json.RawMessage
	Progress   runtype.Progress
	Err        error // why no run can accept it
}

// VerbStart is the verb of a run that was created as an object.
const VerbStart runtype.Verb = "start"

// Signal is the verb of signals, in addition to the verbs of package workflow.
const Signal runtype.Verb = "signal"

const (
	domain         = "pawl.dev/"
	signalPrefix   = domain + "signal."
	progressPrefix = domain + "progress."
)

// IsRequest reports whether an annotation is a request of a person or a program.
func IsRequest(key string) bool {
	switch rest, ours := strings.CutPrefix(key, domain); {
	case !ours:
		return false
	case rest == "pause" || rest == "resume" || rest == "cancel" || rest == "skip":
		return true
	default:
		return strings.HasPrefix(key, signalPrefix) || strings.HasPrefix(key, progressPrefix)
	}
}

// HasRequests reports whether ReadRequests would return a request. It is for predicates.
func HasRequests(annotations map[string]string) bool {
	for key := range annotations {
		if IsRequest(key) {
			return true
		}
	}
	return false
}

// ReadRequests returns the requests among annotations, in the order of their keys:
// cancel, pause and progress before resume, signals and skip. A request that cannot be
// read has Err set.
func ReadRequests(annotations map[string]string) []Request {
	var all []Request
	for key, value := range annotations {
		if IsRequest(key) {
			all = append(all, readRequest(key, value))
		}
	}
	slices.SortFunc(all, func(a, b Request) int { return strings.Compare(a.Key, b.Key) })
	return all
}

func readRequest(key, value string) Request {
	a := Request{Key: key, Value: value}
	rest := strings.TrimPrefix(key, domain)
	if step, ours := strings.CutPrefix(key, progressPrefix); ours {
		a.Verb, a.Step = runtype.VerbProgress, step
		a.ID = "-" // it needs none: the newest counts
		a.Progress, a.Err = readProgress(value)
		return a
	}
	id, args, _ := strings.Cut(value, ",")
	a.ID = stamped(strings.TrimSpace(id))
	if name, ours := strings.CutPrefix(key, signalPrefix); ours {
		a.Verb, a.Step = Signal, name
		if args = strings.TrimSpace(args); args != "" {
			if !json.Valid([]byte(args)) {
				a.Err = RequestMalformed.Errorf("%s: the payload %.40q is not JSON", key, args)
			}
			a.Payload = json.RawMessage(args)
		}
		return a
	}
	a.Verb = runtype.Verb(rest)
	args = strings.TrimSpace(args)
	switch a.Verb {
	case runtype.VerbPause:
		if args != "" {
			a.Err = RequestMalformed.Errorf("%s takes nothing after the id, not %.40q", key, args)
		}
	case runtype.VerbResume:
		if from, ok := strings.CutPrefix(args, "from="); ok && from != "" {
			a.From = workflow.From(from)
		} else if args != "" {
			a.Err = RequestMalformed.Errorf("%s takes from=first, from=failed or from=<step>, not %.40q", key, args)
		}
	case runtype.VerbCancel:
		switch a.Mode = runtype.Mode(args); a.Mode {
		case "":
			a.Mode = runtype.Hold
		case runtype.Undo, runtype.Drop:
		default:
			a.Err = RequestMalformed.Errorf("%s takes undo or drop, not %.40q", key, args)
		}
	case runtype.VerbSkip:
		if a.Step = args; a.Step == "" {
			a.Err = RequestMalformed.Errorf("%s needs the step after the id", key)
		}
	}
	return a
}

// stamped returns the id in a value; "" if it has none yet. T#id7 has the id id7.
func stamped(value string) string {
	if _, id := request.Parse(value); id != "" {
		return id
	}
	switch strings.ToLower(value) {
	case "", "true", "1", "t", "yes":
		return ""
	}
	return value
}

// Stamp returns the value with an id.
func (a Request) Stamp(id string) string {
	head, args, more := strings.Cut(a.Value, ",")
	head = request.Stamp(head, id)
	if more {
		head += "," + args
	}
	return head
}

func readProgress(value string) (runtype.Progress, error) {
	numbers, text, _ := strings.Cut(value, ",")
	done, total, ok := strings.Cut(numbers, "/")
	d, err := strconv.ParseInt(strings.TrimSpace(done), 10, 64)
	t, err2 := strconv.ParseInt(strings.TrimSpace(total), 10, 64)
	if !ok || err != nil || err2 != nil || d < 0 || t < 0 {
		return runtype.Progress{}, RequestMalformed.Errorf("%.40q is not a progress: use <done>/<total>[,text]", value)
	}
	return runtype.Progress{Done: d, Total: t, Text: strings.TrimSpace(text)}, nil
}
