// Package objects serves objects under /v1/objects: list, read, apply, patch, delete.
package objects

import (
	"net/http"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/machine/driver"
	"github.com/pawl-dev/pawl/server/route"
)

// Service serves the objects of a store.
type Service struct {
	Store control.Objects                     // nil: NOT_SERVED
	Kinds func() ([]driver.ServedKind, error) // nil: NOT_SERVED
}

// Routes are the routes of objects and of their kinds.
func (s *Service) Routes() route.Table {
	const all, kind, namespace, one = "/v1/objects", "/v1/objects/{kind}", "/v1/objects/{kind}/{namespace}", "/v1/objects/{kind}/{namespace}/{name}"
	return route.Table{Tag: "objects", Routes: []route.Route{
		{Method: http.MethodGet, Path: all, ID: "listObjects", Role: route.Operator, Errors: []int{422}, Handle: route.Do(s.list),
			Summary: "List objects of all kinds"},
		{Method: http.MethodGet, Path: kind, ID: "listObjectsOfKind", Role: route.Operator, Errors: []int{422}, Handle: route.Do(s.listKind),
			Summary: "List objects of a kind"},
		{Method: http.MethodGet, Path: namespace, ID: "listObjectsOfNamespace", Role: route.Operator, Errors: []int{422}, Handle: route.Do(s.listNamespace),
			Summary: "List objects of a kind in a namespace"},
		{Method: http.MethodGet, Path: "/v1/kinds", ID: "listKinds", Role: route.Operator, Errors: []int{422}, Handle: route.Do(s.listKinds),
			Summary: "List the kinds of objects that machines serve, with the schemas of their specs"},
		{Method: http.MethodGet, Path: "/v1/machines", ID: "listMachines", Role: route.Operator, Handle: route.Do(s.listMachines),
			Summary: "List the loaded machines, with the number of objects in each state"},
		{Method: http.MethodGet, Path: "/v1/machines/{kind}", ID: "getMachine", Role: route.Operator, Errors: []int{404}, Handle: route.Do(s.getMachine),
			Summary: "Read the machine of a kind of objects, with its states and transitions"},
		{Method: http.MethodGet, Path: one, ID: "getObject", Role: route.Operator, Errors: []int{404}, Handle: route.Do(s.get),
			Summary: "Read an object"},
		{Method: http.MethodPut, Path: one, ID: "applyObject", Role: route.Operator, Errors: []int{409, 412, 422}, Handle: route.Do(s.apply),
			IfMatch: &route.Condition{For: "ETag the change is for; absent: any"},
			Summary: "Create an object, or change its spec", More: "If-Match demands that revision; If-None-Match: * demands a creation."},
		{Method: http.MethodPatch, Path: one, ID: "patchObject", Role: route.Operator, Errors: []int{404, 409, 412, 422, 428}, Handle: route.Do(s.patch),
			IfMatch: &route.Condition{For: "ETag the change is for, or *", Required: true},
			Summary: "Change an object by a merge patch", More: "RFC 7396, over labels, annotations, spec, status, finalizers and owner."},
		{Method: http.MethodDelete, Path: one, ID: "deleteObject", Role: route.Operator, Errors: []int{404, 412, 428}, Handle: route.Do(s.delete),
			IfMatch: &route.Condition{For: "ETag the deletion is for, or *", Required: true},
			Summary: "Delete an object", More: "An object with finalizers gets a deletion mark, and is deleted with its last finalizer."},
	}}
}
