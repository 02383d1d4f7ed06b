package sharedstorage

import (
	"context"
	"strconv"
	"strings"

	"github.com/pawl-dev/pawl/operator/sharedstorage/port"
	"github.com/pawl-dev/pawl/outcome"
)

// allocation is the output of AllocateId. The later steps of a replacement, or of the creation of
// a reader, read it.
type allocation struct {
	Place  string `json:"place"`
	ID     string `json:"id"`            // id of the new instance until it takes over the place
	Name   string `json:"name"`          // of the new instance
	Old    string `json:"old,omitempty"` // name of the instance it replaces
	Skip   bool   `json:"skip,omitempty"`
	Writer bool   `json:"writer,omitempty"`
}

func (w *work) allocated() (a allocation, err error) {
	err = w.t.Output("AllocateId", &a)
	return a, err
}

// allocateID chooses the name of the instance that replaces the one of a place or that fills a new
// place. The name depends on the run only, so a repeated attempt finds the instance that an
// earlier attempt created.
//
//	with: {id: "3"}                  a new reader in this place
//	with: {id: "3", replace: true}   a temporary reader for the one in this place
//	with: {writer: true}             a temporary reader for the writer
func allocateID(_ context.Context, w *work) outcome.Outcome {
	var p struct {
		ID      string `json:"id"`
		Replace bool   `json:"replace"`
		Writer  bool   `json:"writer"`
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
		if a, out = w.replacement(p.ID, p.Writer); !out.IsDone() {
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
			a.Skip = true // another instance holds the place: the run creates nothing
		}
	}
	return a
}

// replacement finds the instance to replace, and the instance that this run has already created
// for it.
func (w *work) replacement(place string, ofWriter bool) (a allocation, out outcome.Outcome) {
	writer := w.f.writer()
	if ofWriter {
		if writer == nil {
			_, out := w.checkWriter()
			return a, out
		}
		if place = writer.ID; writer.Type == port.Temporary { // a failover promoted it before it took over its place
			place = w.placeOfTemporary(writer)
		}
	}
	a = allocation{Place: place, ID: w.temporaryID(place, ofWriter), Name: w.nameOf(place), Writer: ofWriter}
	if ofWriter { // the same run may have replaced a reader of this place before a failover
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
		a.Skip = true // there is no instance to replace; the scale-out transition adds the missing reader later
	case old != nil && !ofWriter && writer != nil && writer.Name == old.Name:
		a.Skip = true // a failover promoted it meanwhile: ReplaceWriter replaces it
	case old != nil && w.in.Node != "" && old.Node == w.in.Node:
		a.Skip = true
	}
	if old != nil {
		a.Old = old.Name
	}
	return a, outcome.Done()
}

// placeOfTemporary returns the place for which this run created a temporary reader.
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

// temporaryID returns the id of the temporary reader for a place. It is the same on every attempt.
func (w *work) temporaryID(place string, ofWriter bool) string {
	if ofWriter {
		return "t-" + hash(w.t.RunID(), place, "writer")
	}
	return "t-" + hash(w.t.RunID(), place)
}

// promotedMeanwhile reports whether a failover has promoted the reader that the run wanted to
// replace. In that case it removes the temporary reader and replaces nothing: ReplaceWriter, or a
// later run, finds the instance in its new role.
func (w *work) promotedMeanwhile(ctx context.Context, a allocation) (bool, outcome.Outcome) {
	if a.Writer || a.Old == "" || w.f.Volume.Writer != a.Old {
		return false, outcome.Done()
	}
	if made := w.f.named(a.Name); made != nil && made.Type == port.Temporary {
		return true, w.remove(ctx, a.Name)
	}
	return true, outcome.Done()
}
