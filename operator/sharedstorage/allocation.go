package sharedstorage

import (
	"context"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
)

// allocation is the output of AllocateId: what the other steps of a
// replacement, or of a new reader, are about.
type allocation struct {
	Place  string `json:"place"`
	ID     string `json:"id"`            // until the place is taken over
	Name   string `json:"name"`          // of the new instance
	Old    string `json:"old,omitempty"` // name of the instance it replaces
	Skip   bool   `json:"skip,omitempty"`
	Writer bool   `json:"writer,omitempty"`
}

func (w *work) allocated() (a allocation, err error) {
	err = w.t.Output("AllocateId", &a)
	return a, err
}

// allocateID names the instance of a place that is made anew. The same run
// gives the same names on every attempt; what it has made already it finds again.
//
//	with: {id: "3"}                  a new reader in this place
//	with: {id: "3", replace: true}   a temporary reader for the one in this place
//	with: {writer: true}             a temporary reader for the writer
func allocateID(_ context.Context, w *work) outcome.Outcome {
	var p struct {
		ID      string `json:"id"`
		Replace bool   `json:"replace"`
		Writer  bool   `json:"writer"`
		Fresh   bool   `json:"fresh"` // even if it is of the wanted size
	}
	if err := w.t.With(&p); err != nil {
		return outcome.Fail(err)
	}
	var a allocation
	switch {
	case !p.Replace && !p.Writer:
		a = w.newPlace(p.ID)
	default:
		var out outcome.Outcome
		if a, out = w.replacement(p.ID, p.Writer, p.Fresh || w.in.Node != ""); !out.IsDone() {
			return out
		}
	}
	return outcome.Fail(w.t.Set(a))
}

func (w *work) newPlace(place string) allocation {
	a := allocation{Place: place, ID: place, Name: w.nameOf(place)}
	for _, i := range w.f.holders(place) {
		if w.madeByRun(i, place) {
			a.Name = i.Name
		} else {
			a.Skip = true // somebody holds it: there is nothing to make
		}
	}
	return a
}

// replacement looks for what is to be replaced, and what this run has made for it.
func (w *work) replacement(place string, ofWriter, fresh bool) (a allocation, out outcome.Outcome) {
	writer := w.f.writer()
	if ofWriter {
		if writer == nil {
			_, out := w.checkWriter()
			return a, out
		}
		if place = writer.ID; writer.Type == port.Temporary { // promoted before it had its place
			place = w.placeOfTemporary(writer)
		}
	}
	a = allocation{Place: place, ID: w.temporaryID(place, ofWriter), Name: w.nameOf(place), Writer: ofWriter}
	if ofWriter { // the place may have had one as a reader's, before a failover
		a.Name += "w"
	}
	var adopted, old *port.Instance
	for _, i := range w.f.holders(place) {
		switch {
		case w.madeByRun(i, place):
			adopted = i
		case old != nil:
			return a, outcome.Fail(RoMetaInvalid.Errorf("%s and %s both hold place %s", old.Name, i.Name, place).With("id", place))
		default:
			old = i
		}
	}
	for _, i := range w.f.holders(a.ID) {
		a.Name = i.Name
	}
	switch {
	case adopted != nil:
		a.Name, a.Skip = adopted.Name, old == nil
	case old == nil && len(w.f.holders(a.ID)) == 0:
		a.Skip = true // nobody is there to be replaced: the readers are counted later
	case old != nil && !ofWriter && writer != nil && writer.Name == old.Name:
		a.Skip = true // it was promoted meanwhile: ReplaceWriter finds it
	case old != nil && len(w.f.holders(a.ID)) == 0 && !fresh && w.fits(old):
		a.Skip = true
	case old != nil && w.in.Node != "" && old.Node == w.in.Node:
		a.Skip = true
	}
	if old != nil {
		a.Old = old.Name
	}
	return a, outcome.Done()
}

// placeOfTemporary is the place a temporary reader of this run was made for.
func (w *work) placeOfTemporary(t *port.Instance) string {
	for _, i := range w.f.Instances {
		if t.ID == w.temporaryID(i.ID, false) || t.ID == w.temporaryID(i.ID, true) {
			return i.ID
		}
	}
	cut := strings.TrimPrefix(t.Name, w.ref.Name+"-")
	if place, _, ok := strings.Cut(cut, "-"); ok {
		if _, err := strconv.Atoi(place); err == nil {
			return place
		}
	}
	return t.ID
}

// temporaryID is the id of the temporary reader for a place: the same on every attempt.
func (w *work) temporaryID(place string, ofWriter bool) string {
	if ofWriter {
		return "t-" + hash(w.t.RunID(), place, "writer")
	}
	return "t-" + hash(w.t.RunID(), place)
}

// promotedMeanwhile reports that a failover has promoted the reader that was to be
// replaced: then nothing is, and its temporary reader goes. ReplaceWriter, or a
// later run, finds it in its new role.
func (w *work) promotedMeanwhile(ctx context.Context, a allocation) (bool, outcome.Outcome) {
	if a.Writer || a.Old == "" || w.f.Volume.Writer != a.Old {
		return false, outcome.Done()
	}
	if made := w.f.named(a.Name); made != nil && made.Type == port.Temporary {
		return true, w.remove(ctx, a.Name)
	}
	return true, outcome.Done()
}

// fits reports an instance of the wanted class and version.
func (w *work) fits(i *port.Instance) bool {
	return (w.in.Class.Name == "" || i.Class.Name == w.in.Class.Name) && (w.in.Version == "" || i.Version == w.in.Version)
}
