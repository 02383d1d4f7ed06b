package sandbox

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/pawl-dev/pawl/control"
	"github.com/pawl-dev/pawl/fault"
)

// Handler returns the API: that of Kubernetes, and below /sandbox what a sandbox has beside it.
//
//	GET  /sandbox/faults   the faults that there are
//	POST /sandbox/faults   {"name": "crash", "target": "storage-1", "for": "5m"}
//	POST /sandbox/skip     {"for": "10m"}
func (s *Sandbox) Handler() http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /version", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, version.Info{Major: "1", Minor: "34", GitVersion: "v1.34.0-pawl.sandbox"})
	})
	for _, path := range []string{"GET /livez", "GET /readyz", "GET /healthz"} {
		m.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) })
	}
	m.HandleFunc("GET /api", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{core.Version}})
	})
	m.HandleFunc("GET /apis", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, groups()) })
	for _, v := range versions() {
		m.HandleFunc("GET "+base(v), func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, resources(v)) })
		m.HandleFunc(base(v)+"/", s.objects)
	}
	m.HandleFunc("GET /openapi/v3", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, documents()) })
	for _, v := range versions() {
		m.HandleFunc("GET /openapi/v3"+base(v), func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, document(v)) })
	}
	m.HandleFunc("GET /sandbox/faults", s.listFaults)
	m.HandleFunc("POST /sandbox/faults", s.injectFault)
	m.HandleFunc("POST /sandbox/skip", s.skip)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !loopback(r.Host) { // a page in a browser may have named this address
			refuse(w, apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("the sandbox is asked at a loopback address only")))
			return
		}
		w.Header().Set("Date", s.Now().Format(http.TimeFormat))
		m.ServeHTTP(w, r)
	})
}

func loopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// versions are those of the API, the core first.
func versions() (all []schema.GroupVersion) {
	for _, k := range kinds {
		if !slices.Contains(all, k.version) {
			all = append(all, k.version)
		}
	}
	return all
}

// base is the path of a version.
func base(v schema.GroupVersion) string {
	if v.Group == "" {
		return "/api/" + v.Version
	}
	return "/apis/" + v.String()
}

func groups() metav1.APIGroupList {
	list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, v := range versions() {
		if v.Group != "" {
			discovered := metav1.GroupVersionForDiscovery{GroupVersion: v.String(), Version: v.Version}
			list.Groups = append(list.Groups, metav1.APIGroup{Name: v.Group, Versions: []metav1.GroupVersionForDiscovery{discovered}, PreferredVersion: discovered})
		}
	}
	return list
}

func resources(v schema.GroupVersion) metav1.APIResourceList {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: v.String()}
	for _, k := range kinds {
		if k.version == v {
			list.APIResources = append(list.APIResources, k.APIResource)
		}
	}
	return list
}

func answer(w http.ResponseWriter, code int, what any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(what) // the caller is gone
}

// refuse answers with an error, as the API server writes it.
func refuse(w http.ResponseWriter, err error) {
	var known apierrors.APIStatus
	if !errors.As(err, &known) {
		known = apierrors.NewInternalError(err)
	}
	status := known.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	answer(w, int(status.Code), status)
}

// refusal is the error of the API server for a fault of the store.
func refusal(err error, k kind, name string) error {
	if err == nil {
		return nil
	}
	switch fault.Of(err) {
	case control.NotFound:
		return apierrors.NewNotFound(k.resource(), name)
	case control.Exists:
		return apierrors.NewAlreadyExists(k.resource(), name)
	case fault.WriteConflict:
		return apierrors.NewConflict(k.resource(), name, errors.New(fault.Message(err)))
	case control.Invalid:
		return apierrors.NewBadRequest(fault.Message(err))
	}
	return err
}
