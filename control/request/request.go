// Package request takes requests out of an object's annotations: each is accepted once,
// answered, and then removed, whatever crashes in between.
//
//	restart=cluster        a person sets an annotation
//	restart=cluster#k3     1. it is stamped with an id
//	                       2. the request is accepted under k3, and the answer is saved
//	                       3. the annotation is removed, unless it has another value by now
//
// Each step may be the last before a crash. The next pass reads the annotation again, finds
// the id, and goes on where the former pass ended: an id that was accepted already is only
// removed. An annotation that was set again in between is a new request and stays.
//
// A controller that acts at once uses Accept. One that saves acceptance together with the
// rest of its status asks Next what to do, and removes after the save.
package request

import (
	"crypto/rand"
	"regexp"
	"slices"
	"strings"
)

// Kept is how many requests that have ended a status keeps.
const Kept = 20

// made is an id of NewID, below the name of what it is for: pause-7.k3x9qabcdefg.
var made = regexp.MustCompile(`^([a-z0-9-]+\.)?[a-z2-7]{12}$`)

// own is an id that somebody has chosen.
var own = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// Parse splits a value into arguments and id: "3#k3" is 3 under k3. The id is empty before
// the value is stamped.
//
// An id stands at the very end. One that somebody has chosen counts only after a plain
// argument: a value with fields, such as "all; reason=see PR#42", may end with the text of a
// person, and there only an id that NewID has made is one.
func Parse(value string) (args, id string) {
	value = strings.TrimSpace(value)
	if at := strings.LastIndexByte(value, '#'); at >= 0 {
		before, last := value[:at], value[at+1:]
		if made.MatchString(last) || own.MatchString(last) && !strings.ContainsAny(before, ";= \t") {
			return strings.TrimSpace(before), last
		}
	}
	return value, ""
}

// Stamp returns the value with an id: one of NewID, or such a one below a name and a dot.
func Stamp(value, id string) string { return value + "#" + id }

// NewID returns a random id of twelve letters and digits.
func NewID() string { return strings.ToLower(rand.Text()[:12]) }

// Step is what to do next about one annotation.
type Step int

// The steps, in their order.
const (
	Ignore   Step = iota // it holds no request
	StampIt              // write Stamp(value, NewID()), guarded by the value that was read
	AcceptIt             // accept the request under its id, and save the answer
	RemoveIt             // remove the annotation, guarded by the value that was read
)

// Next decides what to do about an annotation with this value. accepted reports whether the
// request with an id has been accepted and saved.
func Next(value string, accepted func(id string) bool) Step {
	_, id := Parse(value)
	switch {
	case strings.TrimSpace(value) == "":
		return Ignore
	case id == "":
		return StampIt
	case !accepted(id):
		return AcceptIt
	}
	return RemoveIt
}

// Trim drops all requests that have ended but the newest Kept. The list is ordered by age,
// oldest first. pinned reports a request that must stay: its annotation is
// still there, and without its record it would be accepted again.
func Trim[T any](list []T, ended, pinned func(*T) bool) []T {
	n := 0
	for i := range list {
		if ended(&list[i]) {
			n++
		}
	}
	return slices.DeleteFunc(list, func(r T) bool {
		if !ended(&r) {
			return false
		}
		n-- // what is left are the newer ones
		return n >= Kept && !pinned(&r)
	})
}
