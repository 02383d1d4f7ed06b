package route

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/fault"
	"github.com/pawl-dev/pawl/view"
)

// ETag returns the ETag of a revision.
func ETag(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }

// AnyRevision is the revision of If-Match: *.
const AnyRevision int64 = 0

// revisionOf parses an If-Match: one ETag of this server, or *. given is false without the header.
func revisionOf(header string) (revision int64, given bool, err error) {
	header = strings.TrimSpace(header)
	switch header {
	case "":
		return 0, false, nil
	case "*":
		return AnyRevision, true, nil
	}
	text := strings.TrimPrefix(header, "W/")
	if len(text) > 2 && text[0] == '"' && text[len(text)-1] == '"' {
		text = text[1 : len(text)-1]
	}
	revision, err = strconv.ParseInt(text, 10, 64)
	if err != nil || revision <= 0 || strconv.FormatInt(revision, 10) != text { // this server writes neither "+1" nor "01"
		return 0, true, Malformed.Errorf("If-Match: %s is not one ETag of this server", header)
	}
	return revision, true, nil
}

// readIfMatch reads the header as the route declares it.
func (c *Call) readIfMatch(declared *Condition) (err error) {
	if declared == nil {
		return nil
	}
	c.Revision, c.Conditional, err = revisionOf(c.ifMatch)
	if err == nil && !c.Conditional && declared.Required {
		err = RevisionMissing.Errorf("If-Match is missing")
	}
	return err
}

// conflict returns the error of a request; a write conflict has status 412 if the
// request has a condition.
func (c *Call) conflict(err error) error {
	if !c.Conditional || fault.Of(err) != fault.WriteConflict {
		return err
	}
	p := *view.ProblemOf(err)
	p.Status = http.StatusPreconditionFailed
	return &p
}
