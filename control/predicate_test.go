package control

import (
	"encoding/json"
	"testing"
	"time"
)

func TestPredicates(t *testing.T) {
	gold, err := ParseSelector("tier=gold")
	if err != nil {
		t.Fatal(err)
	}
	base := Object{UID: "u", Generation: 1, Labels: map[string]string{"tier": "gold"}, Annotations: map[string]string{"note": "x"}}
	change := func(f func(*Object)) Event[Object] {
		next := base.Copy()
		f(&next)
		return Event[Object]{Old: base, New: next}
	}
	var (
		created   = Event[Object]{New: base, Created: true}
		deleted   = Event[Object]{Old: base, Deleted: true}
		resync    = Event[Object]{Old: base, New: base, Resync: true}
		spec      = change(func(o *Object) { o.Generation++ })
		status    = change(func(o *Object) { o.Status = json.RawMessage(`{"a":1}`); o.Revision++ })
		other     = change(func(o *Object) { o.UID = "v" })
		mark      = change(func(o *Object) { o.DeletionMark = time.Now() })
		request   = change(func(o *Object) { o.Annotations[RequestPrefix+"resume"] = "1" })
		note      = change(func(o *Object) { o.Annotations["note"] = "y" })
		reportErr = change(func(o *Object) { o.Labels = nil })
		plain     = Event[Object]{Old: Object{}, New: Object{Generation: 1}}
	)
	marked := Event[Object]{Old: mark.New, New: mark.New}
	never := func(Event[Object]) bool { return false }
	for _, c := range []struct {
		name string
		p    Predicate[Object]
		yes  []Event[Object]
		no   []Event[Object]
	}{
		{"generation changed", GenerationChanged, []Event[Object]{created, deleted, resync, spec, other, plain}, []Event[Object]{status, mark, request, note, reportErr}},
		{"deletion mark", DeletionMarked, []Event[Object]{created, deleted, resync, mark}, []Event[Object]{status, spec, request, marked}},
		{"request", RequestChanged, []Event[Object]{created, deleted, resync, request}, []Event[Object]{status, spec, note, reportErr, mark}},
		{"asked", DesiredChanged, []Event[Object]{created, deleted, resync, spec, other, mark, request}, []Event[Object]{status, note, reportErr}},
		{"label", LabelsMatch(gold), []Event[Object]{created, deleted, resync, status, reportErr}, []Event[Object]{plain}},
		{"and", And(LabelsMatch(gold), GenerationChanged), []Event[Object]{created, spec}, []Event[Object]{plain, status}},
		{"and of nothing", And[Object](), []Event[Object]{status}, nil},
		{"and with nil", And(nil, GenerationChanged), []Event[Object]{spec}, []Event[Object]{status}},
		{"or", Or(GenerationChanged, DeletionMarked), []Event[Object]{spec, mark}, []Event[Object]{status, request}},
		{"or of nothing", Or[Object](), nil, []Event[Object]{created}},
		{"or with nil", Or(nil, never), []Event[Object]{status}, nil},
		{"not", Not[Object](GenerationChanged), []Event[Object]{status}, []Event[Object]{spec, created}},
		{"not nil", Not[Object](nil), nil, []Event[Object]{created}},
		{"changed", Changed(func(o Object) string { return o.Labels["tier"] }), []Event[Object]{reportErr, created, resync}, []Event[Object]{status, spec}},
		{"any function", func(e Event[Object]) bool { return e.New.Generation == 2 }, []Event[Object]{spec}, []Event[Object]{status}},
	} {
		for i, e := range c.yes {
			if !c.p(e) {
				t.Errorf("%s: event %d (%+v) is kept back", c.name, i, e)
			}
		}
		for i, e := range c.no {
			if c.p(e) {
				t.Errorf("%s: event %d (%+v) wakes", c.name, i, e)
			}
		}
	}
}
