package control

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pawl-dev/pawl/fault"
)

// The faults of objects. A lost compare-and-swap is fault.WriteConflict.
var (
	NotFound = fault.Declare(fault.Kind{
		Code: "OBJECT_NOT_FOUND", Class: fault.Blocked,
		Title:  "there is no object of this kind, namespace and name",
		Remedy: "Check kind, namespace and name with `pawl get KIND`, or create the object with `pawl apply`.",
	})
	Invalid = fault.Declare(fault.Kind{
		Code: "OBJECT_INVALID", Class: fault.Invalid,
		Title:  "the object or the query is malformed",
		Remedy: "Fix what the message names and send the request again.",
	})
	Exists = fault.Declare(fault.Kind{
		Code: "OBJECT_EXISTS", Class: fault.Invalid,
		Title:  "an object of this kind, namespace and name exists already",
		Remedy: "Choose another name, or change the existing object with `pawl apply`.",
	})
	BeingDeleted = fault.Declare(fault.Kind{
		Code: "OBJECT_DELETING", Class: fault.Blocked,
		Title:  "the object is being deleted",
		Remedy: "Wait until the object is gone (`pawl describe KIND NAME` shows what holds it), then apply it anew.",
	})
)

// MaxObject is the maximum size of spec, status, labels, annotations and finalizers of one object together, in bytes.
const MaxObject = 1 << 20

var (
	kindForm      = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9.-]{0,62}$`)
	namespaceForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	nameForm      = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)
	wordForm      = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$`)
)

// Validate returns OBJECT_INVALID with all problems, or nil.
func (r Ref) Validate() error { return report(r, r.problems()) }

func (r Ref) problems() []string {
	var out []string
	if !kindForm.MatchString(r.Kind) {
		out = append(out, fmt.Sprintf("kind %q: use a letter, then at most 62 letters, digits, dots and dashes", r.Kind))
	}
	if !namespaceForm.MatchString(r.Namespace) {
		out = append(out, fmt.Sprintf("namespace %q: use at most 63 lower-case letters, digits and dashes, with a letter or digit at both ends", r.Namespace))
	}
	if len(r.Name) > 253 || !nameForm.MatchString(r.Name) {
		out = append(out, fmt.Sprintf("name %q: use at most 253 lower-case letters, digits, dashes and dots, with a letter or digit at both ends of each part", r.Name))
	}
	return out
}

// Validate returns OBJECT_INVALID with all problems, or nil. The rules for names and
// labels are those of Kubernetes.
func (o Object) Validate() error {
	out := o.Ref.problems()
	size := len(o.Spec) + len(o.Status)
	for _, key := range slices.Sorted(maps.Keys(o.Labels)) {
		value := o.Labels[key]
		size += len(key) + len(value)
		if !qualified(key) {
			out = append(out, fmt.Sprintf("label key %q: %s", key, qualifiedHelp))
		}
		if value != "" && !wordForm.MatchString(value) {
			out = append(out, fmt.Sprintf("label %s: value %q: %s", key, value, wordHelp))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(o.Annotations)) {
		size += len(key) + len(o.Annotations[key])
		if !qualified(key) {
			out = append(out, fmt.Sprintf("annotation key %q: %s", key, qualifiedHelp))
		}
	}
	for i, f := range o.Finalizers {
		size += len(f)
		if !qualified(f) {
			out = append(out, fmt.Sprintf("finalizer %q: %s", f, qualifiedHelp))
		}
		if slices.Contains(o.Finalizers[:i], f) {
			out = append(out, fmt.Sprintf("finalizer %q is listed twice", f))
		}
	}
	if o.Spec != nil {
		if _, err := canonical(o.Spec); err != nil {
			out = append(out, fmt.Sprintf("spec: is not a JSON object: %v", err))
		}
	}
	if o.Status != nil {
		if _, err := canonical(o.Status); err != nil {
			out = append(out, fmt.Sprintf("status: is not a JSON object: %v", err))
		}
	}
	if o.Owner != nil {
		for _, p := range o.Owner.problems() {
			out = append(out, "owner: "+p)
		}
	}
	if size > MaxObject {
		out = append(out, fmt.Sprintf("its %d bytes are more than the %d that an object may have", size, MaxObject))
	}
	return report(o.Ref, out)
}

func report(ref Ref, problems []string) error {
	if len(problems) == 0 {
		return nil
	}
	return Invalid.Errorf("%s: %s", ref, strings.Join(problems, "; ")).With("object", ref.String()).With("problems", problems)
}

const (
	wordHelp      = "use at most 63 letters, digits, dashes, dots and underscores, with a letter or digit at both ends"
	qualifiedHelp = "use [DNS name/]word, the word of " + wordHelp
)

// qualified reports whether a key has the form word or dns.name/word.
func qualified(key string) bool {
	prefix, word, found := strings.Cut(key, "/")
	if !found {
		return wordForm.MatchString(key)
	}
	return len(prefix) <= 253 && nameForm.MatchString(prefix) && wordForm.MatchString(word)
}
